#include "kernels/linear/linear_arguments.h"

#include <algorithm>

namespace samestep {
namespace {

// As TensorView::rows, but of matrices without columns, too: the logits of a shard that lies in the padding
// of the vocabulary.
int64_t RowsOf(const TensorView& matrix) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < matrix.shape.rank(); ++i) rows *= matrix.shape[i];
  return rows;
}

}  // namespace

LinearForwardArguments::LinearForwardArguments(const Call& call)
    : src(call.view(0)),
      weights(call.view(1)),
      bias(call.view(2)),
      dst(call.view(3)),
      rows(RowsOf(src)),
      inputs(src.columns()),
      outputs(weights.rows()),
      lanes(static_cast<int>(call.Integer("tensor_lanes"))) {
  SAMESTEP_CHECK_GE(lanes, 1);
  SAMESTEP_CHECK_EQ(inputs % lanes, int64_t{0});
  SAMESTEP_CHECK_EQ(weights.columns(), inputs);
  SAMESTEP_CHECK_EQ(RowsOf(dst), rows);
  SAMESTEP_CHECK_EQ(dst.columns(), outputs);
  if (bias.present()) SAMESTEP_CHECK_EQ(bias.elements(), outputs);
}

LinearBackwardDataArguments::LinearBackwardDataArguments(const Call& call)
    : diff_src(call.view(6)),
      rows(RowsOf(diff_src)),
      inputs(diff_src.columns()),
      lanes(static_cast<int>(call.Integer("tensor_lanes"))) {
  SAMESTEP_CHECK_GE(lanes, 1);
  const int64_t given = call.Integer("lane_size");
  for (int i = 0; i < 6; i += 2) {
    const TensorView &diff_dst = call.view(i), &weights = call.view(i + 1);
    if (!diff_dst.present()) continue;
    const int64_t outputs = weights.rows();
    SAMESTEP_CHECK_EQ(RowsOf(diff_dst), rows);
    SAMESTEP_CHECK_EQ(diff_dst.columns(), outputs);
    SAMESTEP_CHECK_EQ(weights.columns(), inputs);
    if (given == 0) SAMESTEP_CHECK_EQ(outputs % lanes, int64_t{0});
    if (given != 0) SAMESTEP_CHECK_GE(given * lanes, outputs);
    linears.push_back({diff_dst, weights, outputs, given != 0 ? given : outputs / lanes});
  }
}

int64_t LinearBackwardDataArguments::Linear::LaneBegin(int lane) const {
  return std::min(lane * lane_size, outputs);
}

int64_t LinearBackwardDataArguments::Linear::LaneTerms(int lane) const {
  return LaneBegin(lane + 1) - LaneBegin(lane);
}

TokenSumArguments::TokenSumArguments(const Call& call, int diff_dst_index, int accumulators_index,
                                     int accumulator_rank)
    : diff_dst(call.view(diff_dst_index)),
      accumulators(call.view(accumulators_index)),
      rows(RowsOf(diff_dst)),
      outputs(diff_dst.columns()),
      lane_stride(0) {
  const TokenSum order = GetTokenSum(call);
  const int rank = accumulators.shape.rank();
  const bool has_lanes = rank == accumulator_rank + 1;
  SAMESTEP_CHECK(has_lanes || (rank == accumulator_rank && order.token_lanes == 1));
  if (has_lanes) {
    SAMESTEP_CHECK_EQ(accumulators.shape[0], int64_t{order.token_lanes});
    lane_stride = accumulators.strides[0];
  }
  SAMESTEP_CHECK_EQ(accumulators.shape[has_lanes ? 1 : 0], outputs);
  blocks = TokenBlocks(order, rows);
}

}  // namespace samestep
