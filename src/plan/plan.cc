#include "plan/plan.h"

#include <unistd.h>

#include <algorithm>

#include "plan/held.h"
#include "plan/memory.h"
#include "plan/work.h"

namespace samestep {
namespace {

struct KindNames {
  const char *key, *label;
};
constexpr KindNames kKinds[kMemoryKinds] = {
    {"weights", "weights"},
    {"gradients", "gradients: lanes and tree"},
    {"received_gradients", "gradients received and summed"},
    {"moments", "moments"},
    {"activations", "activations in flight"},
    {"scratch", "scratch of a block"},
    {"communication", "communication"},
    {"logits", "logits"},
    {"tokens", "tokens of a step"},
    {"sample_order", "order of samples"},
    {"kernels", "kernels (at most)"},
    {"program", "program (about)"},
};

}  // namespace

const char* MemoryKey(MemoryKind kind) { return kKinds[static_cast<int>(kind)].key; }
const char* MemoryLabel(MemoryKind kind) { return kKinds[static_cast<int>(kind)].label; }

Count RankPlan::Memory() const {
  Count total;
  for (const Count& bytes : memory) total += bytes;
  return total;
}

Count RankPlan::TensorMemory() const {
  Count total;
  for (int kind = 0; kind <= static_cast<int>(MemoryKind::kTokens); ++kind) total += memory[kind];
  return total;
}

Count RankPlan::BytesSent() const {
  Count total;
  for (const NetworkItem& item : network) total += item.bytes;
  return total;
}

Count RankPlan::RingBytes() const {
  Count total;
  for (const NetworkItem& item : network) total += item.ring;
  return total;
}

Count ModelParameters(const DecoderConfig& config) {
  Count total;
  for (const HeldParameter& p : HeldParameters(config, {}, {})) total += p.elements() * p.copies;
  return total;
}

Count SixParametersTokens(const PlanConfig& config) {
  return Count(6) * ModelParameters(config.model) * config.global_batch * config.model.sequence;
}

RankPlan PlanRank(const PlanConfig& config, const RankPlace& place) {
  RankPlan plan;
  plan.place = place;
  PlanMemory(config, plan);
  plan.memory[static_cast<int>(MemoryKind::kSampleOrder)] += config.sample_order;
  PlanArithmetic(config, plan);
  PlanNetwork(config, plan);
  return plan;
}

std::vector<RankPlan> PlanLargestRanks(const PlanConfig& config) {
  std::vector<RankPlan> ranks;
  for (int stage = 0; stage < config.layout.pipeline; ++stage) {
    ranks.push_back(PlanRank(config, {.data = 0, .tensor = 0, .pipeline = stage}));
    if (config.layout.tensor == 1) continue;
    ranks.push_back(PlanRank(config, {.data = 0, .tensor = config.layout.tensor - 1, .pipeline = stage}));
  }
  return ranks;
}

Count MostMemory(const std::vector<RankPlan>& ranks) {
  Count most;
  for (const RankPlan& rank : ranks) most = std::max(most, rank.Memory());
  return most;
}

Status CheckMemory(const PlanConfig& config, int ranks_on_this_machine) {
  const Count rank = MostMemory(PlanLargestRanks(config));
  const Count needed = rank * ranks_on_this_machine;
  const Count there = Count(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (needed <= there) return {};
  const std::string each = ranks_on_this_machine == 1
                               ? ""
                               : fmt::format(" ({} processes on it, up to {:.1f} GiB each)",
                                             ranks_on_this_machine, rank.real() / 0x1p30);
  return UsageError(
      "this recipe needs about {:.1f} GiB of memory{}, the machine has {:.1f}; use a smaller "
      "train.micro_batch, memory.recompute = \"layer\", a smaller model, or fewer train.steps; `samestep "
      "plan` "
      "shows what takes it",
      needed.real() / 0x1p30, each, there.real() / 0x1p30);
}

}  // namespace samestep
