// linear_arguments.h: the calls of the linear kernels read back as what they mean, with sizes checked.
// Shared by the fast kernels and their references.
//
// Determinism: plain descriptions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear/linear.h"

namespace samestep {

struct LinearForwardArguments {
  explicit LinearForwardArguments(const Call& call);
  TensorView src, weights, bias, dst;
  int64_t rows, inputs, outputs;
  int lanes;
};

struct LinearBackwardDataArguments {
  explicit LinearBackwardDataArguments(const Call& call);
  struct Linear {
    TensorView diff_dst, weights;
    int64_t outputs, lane_size;
    // Outputs of a tensor lane: [begin, begin + size).
    int64_t LaneBegin(int lane) const;
    int64_t LaneTerms(int lane) const;
  };
  std::vector<Linear> linears;
  TensorView diff_src;
  int64_t rows, inputs;
  int lanes;
};

// A gradient that sums over tokens: accumulators [token_lanes, outputs, inputs] or [token_lanes, outputs].
struct TokenSumArguments {
  TokenSumArguments(const Call& call, int diff_dst, int accumulators, int accumulator_rank);
  TensorView diff_dst, accumulators;
  int64_t rows, outputs;
  int64_t lane_stride;  // elements from accumulator to accumulator
  std::vector<TokenBlock> blocks;
};

}  // namespace samestep
