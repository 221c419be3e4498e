// trained_model.h: the weights of a run's checkpoint, for generation and export.
//
//   SAMESTEP_ASSIGN_OR_RETURN(TrainedModel trained, LoadTrainedModel("runs/a", ""));
//   trained.model->NextTokenLogits(tokens, logits);
//
// Determinism: every fingerprint is verified; the weights are those that the run had.
#pragma once

#include <memory>
#include <string>

#include "model/decoder.h"
#include "recipe/recipe.h"

namespace samestep {

struct TrainedModel {
  Recipe recipe;
  std::unique_ptr<Decoder> model;  // for one sample at a time
  int64_t step = 0;
};

// `checkpoint` names a checkpoint folder; empty: the newest of the run.
Result<TrainedModel> LoadTrainedModel(const std::string& run_folder, const std::string& checkpoint);

}  // namespace samestep
