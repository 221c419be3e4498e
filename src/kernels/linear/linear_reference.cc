// The products of a linear layer, one element at a time, as the numerics page states them.
#include <optional>
#include <vector>

#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/linear_kernels.h"
#include "numerics/sums.h"

namespace samestep {
namespace {

Terms Row(const TensorView& matrix, int64_t row) { return {matrix.f32() + row * matrix.row_stride(), 1}; }
Terms Column(const TensorView& matrix, int64_t column) {
  return {matrix.f32() + column, matrix.row_stride()};
}

}  // namespace

void LinearForwardReference(const Call& call) {
  const LinearForwardArguments a(call);
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t o = 0; o < a.outputs; ++o) {
      const float sum = LaneSum(Row(a.src, r), Row(a.weights, o), a.inputs, a.lanes);
      a.dst.f32()[r * a.dst.row_stride() + o] = a.bias.present() ? sum + a.bias.f32()[o] : sum;
    }
  }
}

void LinearBackwardDataReference(const Call& call) {
  const LinearBackwardDataArguments a(call);
  std::vector<float> lanes(static_cast<size_t>(a.lanes));
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t i = 0; i < a.inputs; ++i) {
      for (int lane = 0; lane < a.lanes; ++lane) {
        std::optional<float> sum;
        for (const auto& linear : a.linears) {
          const int64_t begin = linear.LaneBegin(lane), terms = linear.LaneTerms(lane);
          if (terms == 0) continue;
          sum = BlockedSum(Row(linear.diff_dst, r).From(begin), Column(linear.weights, i).From(begin), terms,
                           sum);
        }
        lanes[static_cast<size_t>(lane)] = sum.value_or(0.0f);
      }
      a.diff_src.f32()[r * a.diff_src.row_stride() + i] = Tree(lanes);
    }
  }
}

void LinearBackwardWeightsReference(const Call& call) {
  const TensorView src = call.view(0);
  const TokenSumArguments a(call, 1, 2, 2);
  const int64_t stride = a.accumulators.strides[a.accumulators.shape.rank() - 2];
  for (const TokenBlock& block : a.blocks) {
    for (int64_t o = 0; o < a.outputs; ++o) {
      for (int64_t i = 0; i < src.columns(); ++i) {
        float& sum = a.accumulators.f32()[block.lane * a.lane_stride + o * stride + i];
        const float chain =
            Chain(Column(a.diff_dst, o).From(block.row), Column(src, i).From(block.row), block.count);
        sum = block.sets ? chain : sum + chain;
      }
    }
  }
}

void BiasBackwardReference(const Call& call) {
  const TokenSumArguments a(call, 0, 1, 1);
  for (const TokenBlock& block : a.blocks) {
    for (int64_t o = 0; o < a.outputs; ++o) {
      float& sum = a.accumulators.f32()[block.lane * a.lane_stride + o];
      const float chain = Chain(Column(a.diff_dst, o).From(block.row), kOnes, block.count);
      sum = block.sets ? chain : sum + chain;
    }
  }
}

}  // namespace samestep
