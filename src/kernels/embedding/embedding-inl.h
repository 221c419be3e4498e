// embedding-inl.h: embedding's kernels for the instruction set that is being compiled.
//
// Determinism: the bits of embedding_reference.cc.
#include "kernels/rows-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_EMBEDDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_EMBEDDING_INL_H_
#undef SAMESTEP_KERNELS_EMBEDDING_INL_H_
#else
#define SAMESTEP_KERNELS_EMBEDDING_INL_H_
#endif

#include <cstring>
#include <vector>

#include "kernels/embedding/embedding.h"
#include "kernels/row_tasks.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Of a row that is added to an accumulator row.
HWY_INLINE void AddRow(const float* x, float* sum, int64_t count) {
  ForElements(count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + i), hn::LoadU(d, x + i)), d, sum + i);
  });
}

HWY_INLINE void ZeroLanesNotSet(const TensorView& lanes, const TokenSum& order) {
  float* data = lanes.f32();
  const int64_t rows = lanes.shape[1], columns = lanes.columns(), stride = lanes.row_stride();
  for (int64_t lane = 0; lane < order.token_lanes; ++lane) {
    if (order.lanes_set >> lane & 1) continue;
    ForRowGroups(rows, columns, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::memset(data + (lane * rows + row) * stride, 0, static_cast<size_t>(columns) * sizeof(float));
      }
    });
  }
}

// Columns of a task when tasks are strips of columns: whole cache lines, several strips for each thread.
inline int64_t StripColumns(int64_t columns) {
  constexpr int64_t kLine = 16;
  const int64_t wanted = columns / (4 * ThreadCount());
  return std::max(kLine, (wanted + kLine - 1) / kLine * kLine);
}

void EmbeddingForwardFast(const Call& call) {
  const TensorView &tokens = call.view(0), &weights = call.view(1), &positions = call.view(2);
  const TensorView& dst = call.view(3);
  const int64_t length = tokens.shape[1], features = weights.columns(), vocabulary = weights.rows();
  const int64_t token_stride = tokens.row_stride(), weight_stride = weights.row_stride();
  const int64_t position_stride = positions.present() ? positions.row_stride() : 0;
  const int64_t dst_stride = dst.row_stride();
  const int32_t* ids = tokens.i32();
  const float *table = weights.f32(), *position_table = positions.present() ? positions.f32() : nullptr;
  float* out = dst.f32();
  ForRowGroups(tokens.elements(), features, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t p = begin; p < end; ++p) {
      const int32_t token = ids[p / length * token_stride + p % length];
      SAMESTEP_CHECK(token >= 0 && token < vocabulary);
      const float* row = table + token * weight_stride;
      float* x = out + p * dst_stride;
      if (position_table == nullptr) {
        std::memcpy(x, row, static_cast<size_t>(features) * sizeof(float));
        continue;
      }
      const float* position = position_table + p % length * position_stride;
      ForElements(features, [&](auto d, int64_t i) HWY_ATTR {
        hn::StoreU(hn::Add(hn::LoadU(d, row + i), hn::LoadU(d, position + i)), d, x + i);
      });
    }
  });
}

// A task owns some columns of every row, so that it alone adds to them, in the order of the positions.
void EmbeddingBackwardFast(const Call& call) {
  const TensorView &tokens = call.view(0), &diff_dst = call.view(1), &diff_weights = call.view(2);
  const TokenSum order = GetTokenSum(call);
  const int64_t rows = tokens.elements(), length = tokens.shape[1], features = diff_dst.columns();
  const int64_t table = diff_weights.shape[1], first_row = call.Integer("first_row");
  ZeroLanesNotSet(diff_weights, order);
  constexpr int64_t kNone = -1;                            // another shard's
  std::vector<int64_t> target(static_cast<size_t>(rows));  // row of diff_weights that position p adds to
  for (const TokenBlock& block : TokenBlocks(order, rows)) {
    for (int64_t p = block.row; p < block.row + block.count; ++p) {
      const int32_t token = tokens.i32()[p / length * tokens.row_stride() + p % length];
      SAMESTEP_CHECK_GE(token, 0);
      const int64_t row = token - first_row;
      target[p] = row < 0 || row >= table ? kNone : block.lane * table + row;
    }
  }
  const float* dx = diff_dst.f32();
  float* sums = diff_weights.f32();
  const int64_t dx_stride = diff_dst.row_stride(), sum_stride = diff_weights.row_stride();
  const int64_t strip = StripColumns(features);
  ParallelFor((features + strip - 1) / strip, [&](int64_t task) HWY_ATTR {
    const int64_t first = task * strip, count = std::min(strip, features - first);
    for (int64_t p = 0; p < rows; ++p) {
      if (target[p] == kNone) continue;
      AddRow(dx + p * dx_stride + first, sums + target[p] * sum_stride + first, count);
    }
  });
}

// A task owns some positions, and adds their rows sample by sample.
void PositionBackwardFast(const Call& call) {
  const TensorView &diff_dst = call.view(0), &diff_positions = call.view(1);
  const TokenSum order = GetTokenSum(call);
  const int64_t rows = diff_dst.rows(), features = diff_dst.columns(), table = diff_positions.shape[1];
  const int64_t lane_tokens = order.tokens / order.token_lanes;
  const int64_t touched = std::min(order.tokens, order.first_token + rows);
  SAMESTEP_CHECK_LE(touched, table);
  ZeroLanesNotSet(diff_positions, order);
  const float* dx = diff_dst.f32();
  float* sums = diff_positions.f32();
  const int64_t dx_stride = diff_dst.row_stride(), sum_stride = diff_positions.row_stride();
  ForRowGroups(std::min(order.tokens, rows), features, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t first = begin; first < end; ++first) {
      const int64_t position = (order.first_token + first) % order.tokens;
      float* sum = sums + (position / lane_tokens * table + position) * sum_stride;
      for (int64_t p = first; p < rows; p += order.tokens) AddRow(dx + p * dx_stride, sum, features);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
