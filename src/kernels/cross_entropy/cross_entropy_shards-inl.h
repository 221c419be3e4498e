// cross_entropy_shards-inl.h: cross-entropy of a shard of the vocabulary, for the instruction set that is
// being compiled.
//
// Determinism: the bits of cross_entropy_shards_reference.cc.
#include "kernels/cross_entropy/cross_entropy_row-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_CROSS_ENTROPY_SHARDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_CROSS_ENTROPY_SHARDS_INL_H_
#undef SAMESTEP_KERNELS_CROSS_ENTROPY_SHARDS_INL_H_
#else
#define SAMESTEP_KERNELS_CROSS_ENTROPY_SHARDS_INL_H_
#endif

#include <limits>
#include <vector>

#include "kernels/cross_entropy/cross_entropy_shards_call.h"
#include "kernels/row_tasks.h"
#include "numerics/elementary.h"
#include "numerics/sums.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

void CrossEntropyMaxFast(const Call& call) {
  const TensorView &logits = call.view(0), &local_max = call.view(1);
  const int64_t rows = local_max.elements(), columns = logits.columns(), stride = logits.row_stride();
  SAMESTEP_CHECK_EQ(logits.elements(), rows * columns);
  const float* z = logits.f32();
  float* maxima = local_max.f32();
  ForRowGroups(rows, columns, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      maxima[row] =
          columns == 0 ? -std::numeric_limits<float>::infinity() : RowMax(z + row * stride, columns);
    }
  });
}

void CrossEntropySumFast(const Call& call) {
  const CrossEntropySumArguments a(call);
  ForRowGroups(a.rows, 4 * a.columns, [&](int64_t begin, int64_t end) HWY_ATTR {
    std::vector<float> parts(static_cast<size_t>(a.lanes));
    for (int64_t row = begin; row < end; ++row) {
      const int32_t target = a.Target(row);
      const int64_t column = a.Column(target);
      const float m = samestep::RowMax({a.maxima + row, a.rows}, a.shards);
      a.row_max[row] = m;
      a.target_logit[row] = column < 0 ? 0 : a.Row(row)[column];
      const bool keep = a.want_gradient && target >= 0;
      a.lane_sum[row] = SumOfLanes(a.Row(row), a.columns, a.lane_size, m, keep, parts);
    }
  });
}

void CrossEntropyLossFast(const Call& call) {
  const CrossEntropyLossArguments a(call);
  ForRowGroups(a.rows, a.want_gradient ? a.columns : 16, [&](int64_t begin, int64_t end) HWY_ATTR {
    std::vector<float> parts(static_cast<size_t>(a.shards));
    for (int64_t row = begin; row < end; ++row) {
      const int32_t target = a.Target(row);
      for (size_t shard = 0; shard < parts.size(); ++shard) {
        parts[shard] = a.lane_sums[static_cast<int64_t>(shard) * a.rows + row];
      }
      const float l = Tree(parts);
      a.loss[row] = target < 0 ? 0 : (a.row_max[row] - a.TargetLogit(target, row)) + samestep::Log(l);
      a.row_sum[row] = l;
      if (!a.want_gradient) continue;
      if (target < 0) {
        ZeroRow(a.Row(row), a.columns);
      } else {
        GradientOfRow(a.Row(row), a.columns, a.Column(target), l, a.weight);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
