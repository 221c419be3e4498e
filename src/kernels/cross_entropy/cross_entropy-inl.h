// cross_entropy-inl.h: cross-entropy for the instruction set that is being compiled.
//
// Three passes over a row, which stays in the cache: maximum; exponentials (kept in the row where the
// gradient is wanted) and their sum; gradient.
//
// Determinism: the bits of cross_entropy_reference.cc.
#include "kernels/rows-inl.h"
#include "numerics/elementary-inl.h"
#include "numerics/row_sum-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_
#undef SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_
#else
#define SAMESTEP_KERNELS_CROSS_ENTROPY_INL_H_
#endif

#include <algorithm>
#include <cstring>
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

// The row sum of expz(z - m); each exponential is stored in its element's place where `keep`.
template <bool kKeep>
HWY_INLINE float SumExponentials(float* z, int64_t count, float m) {
  const hn::CappedTag<float, kStripes> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  constexpr int64_t kVectors = kStripes / kLanes;
  const auto maximum = hn::Set(d, m);
  HWY_ALIGN float stripes[kStripes];
  hn::Vec<decltype(d)> sums[kVectors];
#pragma GCC unroll 16
  for (int64_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStripes <= count; i += kStripes) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) {
      const auto p = CrExpZ(d, hn::Sub(hn::LoadU(d, z + i + v * kLanes), maximum));
      if (kKeep) hn::StoreU(p, d, z + i + v * kLanes);
      sums[v] = hn::Add(sums[v], p);
    }
  }
#pragma GCC unroll 16
  for (int64_t v = 0; v < kVectors; ++v) hn::Store(sums[v], d, stripes + v * kLanes);
  for (int64_t s = 0; i < count; ++i, ++s) {
    const float p = samestep::ExpZ(z[i] - m);
    if (kKeep) z[i] = p;
    stripes[s] = stripes[s] + p;
  }
  return FoldStripes(stripes);
}

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
  for (int64_t lane = 0; lane < shape.lanes; ++lane) {
    const int64_t begin = std::min(lane * shape.lane_size, shape.vocabulary);
    const int64_t count = std::min((lane + 1) * shape.lane_size, shape.vocabulary) - begin;
    parts[lane] =
        keep ? SumExponentials<true>(z + begin, count, m) : SumExponentials<false>(z + begin, count, m);
  }
  const float l = shape.lanes == 1 ? parts[0] : Tree(parts);
  *loss = target < 0 ? 0 : (m - chosen) + samestep::Log(l);
  *row_max = m;
  *row_sum = l;
  if (!shape.want_gradient) return;
  if (target < 0) {
    std::memset(z, 0, static_cast<size_t>(shape.vocabulary) * sizeof(float));
    return;
  }
  const float of_target = (z[target] / l - 1) * shape.weight;
  ForElements(shape.vocabulary, [&](auto d, int64_t i) HWY_ATTR {
    const auto p = hn::Div(hn::LoadU(d, z + i), hn::Set(d, l));  // p >= +0, so p - 0 is p
    hn::StoreU(hn::Mul(p, hn::Set(d, shape.weight)), d, z + i);
  });
  z[target] = of_target;
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
