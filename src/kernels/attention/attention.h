// attention.h: causal attention with grouped heads, forward and backward.
//
//   AttentionShape shape{.heads = 12, .kv_heads = 4, .head_size = 64, .context_lanes = 1,
//                        .scale = AttentionScale(64)};
//   AttentionForward(q, k, v, dst, row_max, row_sum, shape);
//   AttentionBackward(q, k, v, dst, row_max, row_sum, diff_dst, diff_q, diff_k, diff_v, shape);
//
// q, dst and their gradients are [samples, tokens, heads * head_size]; k, v and theirs [samples, tokens,
// kv_heads * head_size]; each may be a slice of columns of a fused projection. row_max and row_sum are
// [samples, heads, tokens] and contiguous. Query head h reads key head h / (heads / kv_heads).
//
// Determinism: each query row and each key row owns its sums (numerics page, "Causal attention"), so threads,
// instruction set and the samples of a call reach no bit.
#pragma once

#include "kernels/call.h"

namespace samestep {

struct AttentionShape {
  int heads = 1, kv_heads = 1, head_size = 1;  // head_size at most kMaxHeadSize
  int context_lanes = 1;                       // divides the tokens of a sample
  float scale = 1;
};

inline constexpr int kMaxHeadSize = 256;

// fl(1 / fl(sqrt(head_size))).
float AttentionScale(int head_size);

// Kernel "attention.forward".
void AttentionForward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& dst,
                      const TensorView& row_max, const TensorView& row_sum, const AttentionShape& shape);

// Kernel "attention.backward". Overwrites the three gradients.
void AttentionBackward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& dst,
                       const TensorView& row_max, const TensorView& row_sum, const TensorView& diff_dst,
                       const TensorView& diff_q, const TensorView& diff_k, const TensorView& diff_v,
                       const AttentionShape& shape);

}  // namespace samestep
