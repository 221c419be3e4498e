// embedding.h: rows of a table chosen by tokens, with learned positions where there are any.
//
//   EmbeddingForward(tokens, weights, positions, x);       // x[b, s] = fl(weights[token] + positions[s])
//   EmbeddingBackward(tokens, dx, weight_lanes, order);    // [token_lanes, V, H]
//   PositionBackward(dx, position_lanes, order);           // [token_lanes, P, H]
//
// tokens is i32 [B, S], each in [0, V) (others stop the forward pass: data is checked where it is read);
// positions is optional, [P, H], P >= S. Position means index within the sample.
//
// Determinism: rows are selected, never summed, forward; the gradient of a row adds its positions ascending
// in each token lane (numerics page, "Embedding").
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"
#include "kernels/token_sum.h"

namespace samestep {

extern const Kernel& kEmbeddingForward;
extern const Kernel& kEmbeddingBackward;
extern const Kernel& kPositionBackward;

void EmbeddingForward(const TensorView& tokens, const TensorView& weights, const TensorView& positions,
                      const TensorView& dst);

// Accumulators that order.lanes_set does not name are +0 first. All token lanes are written by every call.
// diff_weights are rows [first_row, first_row + V) of the table: other tokens contribute nothing.
void EmbeddingBackward(const TensorView& tokens, const TensorView& diff_dst, const TensorView& diff_weights,
                       const TokenSum& order, int64_t first_row = 0);

// diff_dst is [B, S, H]: row r of its rows is token (order.first_token + r) mod order.tokens of its sample.
void PositionBackward(const TensorView& diff_dst, const TensorView& diff_positions, const TokenSum& order);

}  // namespace samestep
