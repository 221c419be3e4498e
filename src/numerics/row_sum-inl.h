// row_sum-inl.h: row sums, row dots and row maxima of contiguous floats with sixteen stripes, vectorised.
//
//   const float ms = RowDot(x, x, features) / features;
//
// Inside HWY_NAMESPACE these names hide the references of sums.h; write samestep::RowSum for those.
//
// Determinism: the bits of the references in sums.h on every target.
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_NUMERICS_ROW_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_NUMERICS_ROW_SUM_INL_H_
#undef SAMESTEP_NUMERICS_ROW_SUM_INL_H_
#else
#define SAMESTEP_NUMERICS_ROW_SUM_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "numerics/sums.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

// A vector holds this many of the sixteen stripes.
using StripeTag = hwy::HWY_NAMESPACE::CappedTag<float, kStripes>;
using StripeVector = hwy::HWY_NAMESPACE::Vec<StripeTag>;

// max(-0, +0) = +0 whichever comes first: equal values are the same bits but for the sign of zero.
template <class V>
HWY_INLINE V ExactMax(V a, V b) {
  namespace hn = hwy::HWY_NAMESPACE;
  return hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), hn::Max(a, b));
}

// Runs sixteen stripes over elements [0, count). add(sum, i) gives the stripes of a whole vector at element
// i; add_tail(sum, i, n) those of the n < lanes elements left, and leaves the other stripes as they are.
template <class Add, class AddTail>
HWY_INLINE float StripedSum(int64_t count, Add add, AddTail add_tail) {
  namespace hn = hwy::HWY_NAMESPACE;
  const StripeTag d;
  constexpr int64_t kLanes = hn::MaxLanes(StripeTag());
  constexpr int64_t kVectors = kStripes / kLanes;
  HWY_ALIGN float stripes[kStripes];
  StripeVector sums[kVectors];
  for (int64_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStripes <= count; i += kStripes) {
    for (int64_t v = 0; v < kVectors; ++v) sums[v] = add(sums[v], i + v * kLanes);
  }
  for (int64_t v = 0; v < kVectors && i < count; ++v, i += kLanes) {
    sums[v] = i + kLanes <= count ? add(sums[v], i) : add_tail(sums[v], i, count - i);
  }
  for (int64_t v = 0; v < kVectors; ++v) hn::Store(sums[v], d, stripes + v * kLanes);
  return FoldStripes(stripes);
}

// The n < lanes floats at x, zeros behind; reads no further.
HWY_INLINE StripeVector LoadTail(const float* x, int64_t n) {
  HWY_ALIGN float lanes[kStripes] = {};
  std::memcpy(lanes, x, n * sizeof(float));
  return hwy::HWY_NAMESPACE::Load(StripeTag(), lanes);
}

HWY_INLINE float RowSum(const float* x, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const StripeTag d;
  return StripedSum(
      count, [&](StripeVector sum, int64_t i) { return hn::Add(sum, hn::LoadU(d, x + i)); },
      [&](StripeVector sum, int64_t i, int64_t n) {
        return hn::IfThenElse(hn::FirstN(d, n), hn::Add(sum, LoadTail(x + i, n)), sum);
      });
}

HWY_INLINE float RowDot(const float* x, const float* y, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const StripeTag d;
  return StripedSum(
      count,
      [&](StripeVector sum, int64_t i) {
        return ExactMulAdd(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum);
      },
      [&](StripeVector sum, int64_t i, int64_t n) {
        return hn::IfThenElse(hn::FirstN(d, n), ExactMulAdd(d, LoadTail(x + i, n), LoadTail(y + i, n), sum),
                              sum);
      });
}

// count >= 1
HWY_INLINE float RowMax(const float* x, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  float result = x[0];
  int64_t i = 0;
  if (count >= lanes) {
    HWY_ALIGN float maxima[hn::MaxLanes(d)];
    hn::Vec<decltype(d)> m = hn::LoadU(d, x);
    for (i = lanes; i + lanes <= count; i += lanes) m = ExactMax(m, hn::LoadU(d, x + i));
    hn::Store(m, d, maxima);
    for (int64_t lane = 0; lane < lanes; ++lane) result = samestep::Max(result, maxima[lane]);
  }
  for (; i < count; ++i) result = samestep::Max(result, x[i]);
  return result;
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
