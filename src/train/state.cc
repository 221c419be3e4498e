#include "train/state.h"

#include <set>

#include "comm/world.h"

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

void AddBoxes(const std::string& name, const char* file, const Shard& shard, const TensorView& memory,
              std::vector<StateTensor>& tensors) {
  for (size_t box = 0; box < shard.boxes.size(); ++box) {
    tensors.push_back({name, file, shard.View(memory, box)});
  }
}

void AddMoments(Trainer& trainer, size_t i, std::vector<StateTensor>& tensors) {
  const Parameter& p = *trainer.model().parameters().InOrder()[i];
  const Shard own = p.owned_shard();
  AddBoxes("first_moment." + p.name, "optimizer", own, trainer.optimizer().first_moments()[i].view(),
           tensors);
  AddBoxes("second_moment." + p.name, "optimizer", own, trainer.optimizer().second_moments()[i].view(),
           tensors);
}

}  // namespace

std::vector<StateTensor> StateTensorsOf(Trainer& trainer) {
  std::vector<StateTensor> tensors;
  const std::vector<Parameter*>& order = trainer.model().parameters().InOrder();
  for (size_t i = 0; i < order.size(); ++i) {
    const Parameter& p = *order[i];
    if (p.held) AddBoxes(p.name, "weights", p.shard, p.weights.view(), tensors);
    if (p.owned()) AddMoments(trainer, i, tensors);
  }
  return tensors;
}

std::vector<StateTensor> OwnedStateOf(Trainer& trainer) {
  std::vector<StateTensor> tensors;
  const std::vector<Parameter*>& order = trainer.model().parameters().InOrder();
  for (size_t i = 0; i < order.size(); ++i) {
    const Parameter& p = *order[i];
    if (!p.owned() || (p.replicated && trainer.grid().place().tensor != 0)) continue;
    AddBoxes(p.name, "weights", p.owned_shard(), p.owned_weights(), tensors);
    AddMoments(trainer, i, tensors);
  }
  return tensors;
}

Status SaveState(const std::string& root, Trainer& trainer, const RunIdentity& identity) {
  const Trainer::Position& p = trainer.position();
  CheckpointScalars scalars{p.step,          p.consumed_samples,  p.digest, identity.recipe_digest,
                            identity.recipe, identity.data_digest};
  return SaveCheckpoint(trainer.grid().world(), root, scalars, OwnedStateOf(trainer));
}

namespace {

Status LoadOwnState(const std::string& folder, Trainer& trainer, const RunIdentity& identity) {
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
  std::set<std::string> all;
  for (const Parameter* p : trainer.model().parameters().InOrder()) {
    all.insert({p->name, "first_moment." + p->name, "second_moment." + p->name});
  }
  SAMESTEP_RETURN_IF_ERROR(LoadTensors(folder, manifest, StateTensorsOf(trainer), Coverage::kAll, all));
  trainer.position() = {s.step, s.consumed_samples, s.trajectory};
  return {};
}

}  // namespace

Status LoadState(const std::string& folder, Trainer& trainer, const RunIdentity& identity) {
  return Agree(trainer.grid().world(), LoadOwnState(folder, trainer, identity));
}

}  // namespace samestep
