#include "train/from_recipe.h"

#include <algorithm>

namespace samestep {
namespace {

DecayKind DecayOf(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return DecayKind::kConstant;
    case ScheduleKind::kCosine:
      return DecayKind::kCosine;
    case ScheduleKind::kWarmupStableDecay:
      return DecayKind::kWarmupStableDecay;
  }
  CheckFailed(__FILE__, __LINE__, "schedule", "unknown");
}

}  // namespace

TrainerConfig TrainerConfigOf(const Recipe& r) {
  TrainerConfig c;
  c.model = DecoderConfigOf(r);
  c.optimizer = {r.optimizer.beta1, r.optimizer.beta2, r.optimizer.eps, r.optimizer.weight_decay,
                 r.optimizer.max_norm};
  c.schedule = {DecayOf(r.optimizer.schedule), r.optimizer.lr,          r.optimizer.min_lr,
                r.optimizer.warmup_steps,      r.optimizer.decay_steps, r.train.steps};
  c.seed = static_cast<uint64_t>(r.train.seed);
  c.global_batch = r.train.global_batch;
  c.micro_batch = std::min(r.train.micro_batch, r.train.global_batch);
  return c;
}

}  // namespace samestep
