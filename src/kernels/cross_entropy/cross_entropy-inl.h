// cross_entropy-inl.h: cross-entropy for the instruction set that is being compiled.
//
// Three passes over a row, which stays in the cache: maximum; exponentials (kept in the row where the
// gradient is wanted) and their sum; gradient.
//
// Determinism: the bits of cross_entropy_reference.cc.
#include "kernels/cross_entropy/cross_entropy_row-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_
#undef SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_
#else
#define SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_
#endif

#include <span>
#include <vector>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/row_tasks.h"
#include "numerics/elementary.h"
#include "numerics/sums.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct CrossEntropyShape {
  int64_t vocabulary, lane_size, lanes;
  float weight;
  bool want_gradient;
};

// `parts` has room for a sum a lane.
HWY_INLINE void CrossEntropyRow(float* z, int32_t target, const CrossEntropyShape& shape,
                                std::span<float> parts, float* loss, float* row_max, float* row_sum) {
  SAMESTEP_CHECK(target >= -1 && target < shape.vocabulary);
  const float m = RowMax(z, shape.vocabulary);
  const float chosen = target < 0 ? m : z[target];
  const bool keep = shape.want_gradient && target >= 0;
  const float l = SumOfLanes(z, shape.vocabulary, shape.lane_size, m, keep, parts);
  *loss = target < 0 ? 0 : (m - chosen) + samestep::Log(l);
  *row_max = m;
  *row_sum = l;
  if (!shape.want_gradient) return;
  if (target < 0) return ZeroRow(z, shape.vocabulary);
  GradientOfRow(z, shape.vocabulary, target, l, shape.weight);
}

void CrossEntropyFast(const Call& call) {
  const TensorView& logits = call.view(0);
  const CrossEntropyShape shape = {logits.columns(), call.Integer("vocab_lane_size"),
                                   call.Integer("tensor_lanes"), call.Real("weight"),
                                   call.Integer("want_gradient") != 0};
  const int64_t stride = logits.row_stride();
  float *z = logits.f32(), *loss = call.view(2).f32(), *row_max = call.view(3).f32();
  float* row_sum = call.view(4).f32();
  const int32_t* targets = call.view(1).i32();
  ForRowGroups(logits.rows(), 4 * shape.vocabulary, [&](int64_t begin, int64_t end) HWY_ATTR {
    std::vector<float> parts(static_cast<size_t>(shape.lanes));
    for (int64_t row = begin; row < end; ++row) {
      CrossEntropyRow(z + row * stride, targets[row], shape, parts, loss + row, row_max + row, row_sum + row);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
