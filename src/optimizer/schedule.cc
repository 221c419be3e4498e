#include "optimizer/schedule.h"

#include "base/check.h"

namespace samestep {

float LearningRate(const LearningRateSchedule& schedule, int64_t step) {
  SAMESTEP_CHECK_GE(step, 1);
  if (step < schedule.warmup_steps) return LinearBetween(Decimal(), schedule.lr, step, schedule.warmup_steps);
  int64_t decayed = 0;
  if (schedule.kind == DecayKind::kCosine) decayed = step - schedule.warmup_steps;
  if (schedule.kind == DecayKind::kWarmupStableDecay)
    decayed = step - (schedule.steps - schedule.decay_steps);
  if (decayed <= 0) return schedule.lr.ToFloat();
  if (decayed >= schedule.decay_steps) return schedule.min_lr.ToFloat();
  return schedule.kind == DecayKind::kCosine
             ? CosineBetween(schedule.lr, schedule.min_lr, decayed, schedule.decay_steps)
             : LinearBetween(schedule.lr, schedule.min_lr, decayed, schedule.decay_steps);
}

}  // namespace samestep
