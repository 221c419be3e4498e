// adamw.h: the update of a parameter, its moments, and the fingerprint of what it becomes.
//
//   AdamW(weights, gradient, first_moment, second_moment, fingerprint, scalars);   // fingerprint: u64[2], A
//   and B
//
// All tensors are f32, contiguous, of one shape. The fingerprint is FingerprintOf(weights) after the update,
// made in the same pass over memory: where the weights are a box of their logical tensor (a range of its
// rows, of its columns, or both), the contribution of that box, so that those of the boxes add up to the
// whole's.
//
// Determinism: element by element (numerics page, 5, AdamW); the fingerprint is a sum of integers.
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"

namespace samestep {

extern const Kernel& kAdamW;

// Each the exact value of the recipe's decimals, rounded once to binary32 (numerics page).
struct AdamWScalars {
  float lr = 0;
  float clip = 1;
  float c1 = 1, c2 = 1;  // 1 / (1 - beta^step)
  float beta1 = 0, beta2 = 0;
  float one_minus_beta1 = 0, one_minus_beta2 = 0;
  float eps = 0;
  float weight_decay = 0;  // +0 for weights of fewer than two dimensions
};

void AdamW(const TensorView& weights, const TensorView& gradient, const TensorView& first_moment,
           const TensorView& second_moment, const TensorView& fingerprint, const AdamWScalars& scalars);

}  // namespace samestep
