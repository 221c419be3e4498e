// cross_entropy.h: the loss of each token, and the gradient of its logits in their place.
//
//   CrossEntropy(logits, targets, loss, row_max, row_sum,
//                {.vocab_lane_size = lane, .tensor_lanes = 2, .weight = 1.0f / n, .want_gradient = true});
//
// logits is [.., vocab]: the real columns only (rows of storage may be longer); with want_gradient it becomes
// the gradient. targets is i32 [rows]: -1 is masked (loss +0, gradient row +0). loss, row_max and row_sum are
// [rows]; all of them contiguous.
//
// Determinism: one row sum for each lane of vocab_lane_size columns, then the balanced tree; an empty lane is
// +0; loss = (m - z[t]) + log(l) (numerics page, 1.1 and 5).
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"

namespace samestep {

extern const Kernel& kCrossEntropy;

struct CrossEntropyOptions {
  int64_t vocab_lane_size = 0;  // columns of the padded vocabulary in a tensor lane
  int tensor_lanes = 1;         // vocab_lane_size * tensor_lanes >= vocab
  float weight = 1;             // fl(1 / unmasked targets of the global batch)
  bool want_gradient = true;
};

void CrossEntropy(const TensorView& logits, const TensorView& targets, const TensorView& loss,
                  const TensorView& row_max, const TensorView& row_sum, const CrossEntropyOptions& options);

}  // namespace samestep
