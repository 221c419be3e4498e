// schedule.h: the learning rate of each step.
//
//   const LearningRateSchedule schedule = {.kind = DecayKind::kCosine, .lr = lr, .min_lr = min_lr,
//                                          .warmup_steps = 100, .decay_steps = 900, .steps = 1000};
//   float rate = LearningRate(schedule, step);   // step counts from 1
//
// For step t, with W = warmup_steps, D = decay_steps, S = steps:
//   warm-up, t <= W:   lr * t / W                                             (lr itself at t = W)
//   constant:          lr
//   cosine:            with n = t - W: min_lr + (lr - min_lr) * (1 + cos(pi * n / D)) / 2 for n < D,
//                      min_lr from n = D on
//   warmup-stable-decay: with n = t - (S - D): lr for n <= 0, lr + (min_lr - lr) * n / D for n < D,
//                      min_lr from n = D on
//
// Determinism: each value is the exact real one of the recipe's decimals, rounded once to binary32.
#pragma once

#include <cstdint>

#include "numerics/decimal.h"

namespace samestep {

enum class DecayKind { kConstant, kCosine, kWarmupStableDecay };

struct LearningRateSchedule {
  DecayKind kind = DecayKind::kConstant;
  Decimal lr;
  Decimal min_lr;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  int64_t steps = 0;  // of the whole run
};

float LearningRate(const LearningRateSchedule& schedule, int64_t step);

}  // namespace samestep
