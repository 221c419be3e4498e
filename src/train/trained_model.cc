#include "train/trained_model.h"

#include "checkpoint/checkpoint.h"
#include "train/from_recipe.h"
#include "train/run.h"

namespace samestep {

Result<TrainedModel> LoadTrainedModel(const std::string& run_folder, const std::string& checkpoint) {
  TrainedModel trained;
  SAMESTEP_ASSIGN_OR_RETURN(trained.recipe, LoadRecipe(RecipeFile(run_folder)));
  std::string folder = checkpoint;
  if (folder.empty()) {
    SAMESTEP_ASSIGN_OR_RETURN(folder, LatestCheckpoint(CheckpointsFolder(run_folder)));
  }
  SAMESTEP_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  trained.step = manifest.scalars.step;
  trained.model = std::make_unique<Decoder>(TrainerConfigOf(trained.recipe).model, 1);
  std::vector<StateTensor> weights;
  for (const Parameter* p : trained.model->parameters().InOrder()) {
    weights.push_back({p->name, "weights", p->weights.view()});
  }
  SAMESTEP_RETURN_IF_ERROR(LoadTensors(folder, manifest, weights, Coverage::kGiven));
  return trained;
}

}  // namespace samestep
