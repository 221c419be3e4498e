#include "kernels/embedding/embedding_reference.h"

namespace samestep {
namespace {

// Row `row` of lane `lane` of accumulators [lanes, rows, features].
float* LaneRow(const TensorView& lanes, int64_t lane, int64_t row) {
  return lanes.f32() + (lane * lanes.shape[1] + row) * lanes.row_stride();
}

void ZeroLanesNotSet(const TensorView& lanes, const TokenSum& order) {
  for (int64_t lane = 0; lane < order.token_lanes; ++lane) {
    if (order.lanes_set >> lane & 1) continue;
    for (int64_t row = 0; row < lanes.shape[1]; ++row) {
      for (int64_t i = 0; i < lanes.columns(); ++i) LaneRow(lanes, lane, row)[i] = 0;
    }
  }
}

}  // namespace

void EmbeddingForwardReference(const Call& call) {
  const TensorView &tokens = call.view(0), &weights = call.view(1), &positions = call.view(2);
  const TensorView& dst = call.view(3);
  const int64_t samples = tokens.shape[0], length = tokens.shape[1];
  for (int64_t b = 0; b < samples; ++b) {
    for (int64_t s = 0; s < length; ++s) {
      const int32_t token = tokens.i32()[b * tokens.row_stride() + s];
      SAMESTEP_CHECK(token >= 0 && token < weights.rows());
      const float* row = weights.f32() + token * weights.row_stride();
      float* x = dst.f32() + (b * length + s) * dst.row_stride();
      for (int64_t i = 0; i < weights.columns(); ++i) {
        x[i] = positions.present() ? row[i] + positions.f32()[s * positions.row_stride() + i] : row[i];
      }
    }
  }
}

void EmbeddingBackwardReference(const Call& call) {
  const TensorView &tokens = call.view(0), &diff_dst = call.view(1), &diff_weights = call.view(2);
  const TokenSum order = GetTokenSum(call);
  const int64_t length = tokens.shape[1];
  ZeroLanesNotSet(diff_weights, order);
  for (const TokenBlock& block : TokenBlocks(order, tokens.elements())) {
    for (int64_t p = block.row; p < block.row + block.count; ++p) {
      const int32_t token = tokens.i32()[p / length * tokens.row_stride() + p % length];
      SAMESTEP_CHECK_GE(token, 0);
      const int64_t row = token - call.Integer("first_row");
      if (row < 0 || row >= diff_weights.shape[1]) continue;  // another shard's
      float* sum = LaneRow(diff_weights, block.lane, row);
      for (int64_t i = 0; i < diff_dst.columns(); ++i) {
        sum[i] = sum[i] + diff_dst.f32()[p * diff_dst.row_stride() + i];
      }
    }
  }
}

void PositionBackwardReference(const Call& call) {
  const TensorView &diff_dst = call.view(0), &diff_positions = call.view(1);
  const TokenSum order = GetTokenSum(call);
  ZeroLanesNotSet(diff_positions, order);
  for (const TokenBlock& block : TokenBlocks(order, diff_dst.rows())) {
    for (int64_t p = block.row; p < block.row + block.count; ++p) {
      const int64_t position = (order.first_token + p) % order.tokens;
      SAMESTEP_CHECK_LT(position, diff_positions.shape[1]);
      float* sum = LaneRow(diff_positions, block.lane, position);
      for (int64_t i = 0; i < diff_dst.columns(); ++i) {
        sum[i] = sum[i] + diff_dst.f32()[p * diff_dst.row_stride() + i];
      }
    }
  }
}

}  // namespace samestep
