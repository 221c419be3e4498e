// linear.h: the products of a linear layer: forward, and the gradients of its input, weights and bias.
//
//   LinearForward(src, weights, bias, dst, tensor_lanes);                  // dst = src W^T + b
//   LinearBackwardData(std::array{LinearFanIn{diff_dst, weights}}, diff_src, tensor_lanes);
//   LinearBackwardWeights(src, diff_dst, diff_weights, order);             // order: kernels/token_sum.h
//   BiasBackward(diff_dst, diff_bias, order);
//
// Weights are [outputs, inputs], activations [rows, features]; matrices may have padding between rows.
// Each function is one call of the kernel of the same name (linear.forward and so on).
//
// Determinism: every output element is its own sum, in the order of the numerics page: blocked sums of 256
// terms a block, tensor lanes merged by the balanced tree, token sums for weights and bias. Threads, tiles
// and vector width reach no result.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/token_sum.h"

namespace samestep {

// dst[rows, outputs]: the tree over `tensor_lanes` equal parts of the inputs, then + bias (may be absent).
void LinearForward(const TensorView& src, const TensorView& weights, const TensorView& bias,
                   const TensorView& dst, int tensor_lanes);

// One of the linears that share an input.
struct LinearFanIn {
  TensorView diff_dst;  // [rows, outputs]
  TensorView weights;   // [outputs, inputs]
};

// diff_src[rows, inputs] from one to three linears in their forward order. Tensor lane t covers outputs
// [t * size, (t + 1) * size) of each, where size is `lane_size` if that is not 0 (the padded vocabulary: the
// last lanes may be shorter or empty), else outputs / tensor_lanes. A lane's sum continues through the
// linears.
void LinearBackwardData(std::span<const LinearFanIn> fan_in, const TensorView& diff_src, int tensor_lanes,
                        int64_t lane_size = 0);

// diff_weights[token_lanes, outputs, inputs] (the first dimension may be missing if token_lanes is 1).
void LinearBackwardWeights(const TensorView& src, const TensorView& diff_dst, const TensorView& diff_weights,
                           const TokenSum& order);

// diff_bias[token_lanes, outputs] (the first dimension may be missing if token_lanes is 1).
void BiasBackward(const TensorView& diff_dst, const TensorView& diff_bias, const TokenSum& order);

}  // namespace samestep
