#include "train/state.h"

namespace samestep {
namespace {

// The first line in which two texts differ, as "A" against "B".
std::string FirstDifference(const std::string& a, const std::string& b) {
  const auto line_of = [](const std::string& text, size_t& at) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
    return line;
  };
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const std::string x = line_of(a, i), y = line_of(b, j);
    if (x != y) return fmt::format("\"{}\" there, \"{}\" here", x, y);
  }
  return "only in fields that older versions lack";
}

}  // namespace

std::vector<StateTensor> StateTensorsOf(Trainer& trainer) {
  std::vector<StateTensor> tensors;
  const std::vector<Parameter*>& order = trainer.model().parameters().InOrder();
  for (size_t i = 0; i < order.size(); ++i) {
    const std::string& name = order[i]->name;
    tensors.push_back({name, "weights.safetensors", order[i]->weights.view()});
    tensors.push_back(
        {"first_moment." + name, "optimizer.safetensors", trainer.optimizer().first_moments()[i].view()});
    tensors.push_back(
        {"second_moment." + name, "optimizer.safetensors", trainer.optimizer().second_moments()[i].view()});
  }
  return tensors;
}

Status SaveState(const std::string& root, Trainer& trainer, const RunIdentity& identity) {
  const Trainer::Position& p = trainer.position();
  CheckpointScalars scalars{p.step,          p.consumed_samples,  p.digest, identity.recipe_digest,
                            identity.recipe, identity.data_digest};
  return SaveCheckpoint(root, scalars, StateTensorsOf(trainer));
}

Status LoadState(const std::string& folder, Trainer& trainer, const RunIdentity& identity) {
  SAMESTEP_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  const CheckpointScalars& s = manifest.scalars;
  if (s.recipe_digest != identity.recipe_digest) {
    return UsageError(
        "{} was made with another recipe (digest {}, this one {}; {}); use the recipe in the run folder",
        folder, s.recipe_digest, identity.recipe_digest, FirstDifference(s.recipe, identity.recipe));
  }
  if (s.data_digest != identity.data_digest) {
    return InvalidError("{} was made with other data (digest {}, the data now {}); restore the data files",
                        folder, s.data_digest, identity.data_digest);
  }
  SAMESTEP_RETURN_IF_ERROR(LoadTensors(folder, manifest, StateTensorsOf(trainer)));
  trainer.position() = {s.step, s.consumed_samples, s.trajectory};
  return {};
}

}  // namespace samestep
