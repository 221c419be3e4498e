// cross_entropy_row-inl.h: what cross-entropy does to a row, for the instruction set that is being compiled:
// exponentials and their sum, and the gradient. For the kernel of the whole row and those of its shards.
//
// Determinism: a row sum a lane, then the tree (numerics page, 1.1); vector width does not show.
#include "kernels/rows-inl.h"
#include "numerics/elementary-inl.h"
#include "numerics/row_sum-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_CROSS_ENTROPY_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_CROSS_ENTROPY_ROW_INL_H_
#undef SAMESTEP_KERNELS_CROSS_ENTROPY_ROW_INL_H_
#else
#define SAMESTEP_KERNELS_CROSS_ENTROPY_ROW_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <span>

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

// The tree over parts.size() lanes of `lane_size` columns, as far as there are columns: each the row sum of
// expz(z - m), an empty one +0. The exponentials are stored in their elements' places where `keep`.
HWY_INLINE float SumOfLanes(float* z, int64_t columns, int64_t lane_size, float m, bool keep,
                            std::span<float> parts) {
  for (size_t lane = 0; lane < parts.size(); ++lane) {
    const int64_t begin = std::min(static_cast<int64_t>(lane) * lane_size, columns);
    const int64_t count = std::min(begin + lane_size, columns) - begin;
    parts[lane] =
        keep ? SumExponentials<true>(z + begin, count, m) : SumExponentials<false>(z + begin, count, m);
  }
  return parts.size() == 1 ? parts[0] : Tree(parts);
}

// The gradient of a row in the place of its exponentials p: (p/l - onehot) * weight. `target` < 0: the target
// is none of these columns.
HWY_INLINE void GradientOfRow(float* p, int64_t columns, int64_t target, float l, float weight) {
  const float of_target = target < 0 ? 0 : (p[target] / l - 1) * weight;
  ForElements(columns, [&](auto d, int64_t i) HWY_ATTR {
    const auto quotient = hn::Div(hn::LoadU(d, p + i), hn::Set(d, l));  // >= +0, so less 0 it is the same
    hn::StoreU(hn::Mul(quotient, hn::Set(d, weight)), d, p + i);
  });
  if (target >= 0) p[target] = of_target;
}

// The gradient of a row whose target is masked.
HWY_INLINE void ZeroRow(float* z, int64_t columns) {
  std::memset(z, 0, static_cast<size_t>(columns) * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
