// rows-inl.h: loops over the elements of a row, with their ends, for kernels that go row by row.
//
//   ForElements(n, [&](auto d, int64_t i) HWY_ATTR { StoreU(Mul(LoadU(d, x + i), Set(d, r)), d, y + i); });
//   const float q = StripedRowSum(n, [&](auto d, int64_t i, auto sum) HWY_ATTR {
//     return ExactMulAdd(d, LoadU(d, x + i), LoadU(d, y + i), sum);
//   });
//   MapElements<2, 1>(n, {gate, up}, {dst}, [](auto d, const auto* in, auto* out) HWY_ATTR { ... });
//
// The first two run whole vectors, then single elements through the same function with a tag of one lane, so
// that nothing beyond the row is touched. MapElements copies the end through a zero-padded vector instead.
//
// Determinism: the row sum has sixteen stripes whatever the vector's width (numerics page, "Row sum").
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_ROWS_INL_H_
#undef SAMESTEP_KERNELS_ROWS_INL_H_
#else
#define SAMESTEP_KERNELS_ROWS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "numerics/sums.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

using OneLane = hwy::HWY_NAMESPACE::CappedTag<float, 1>;

template <class Function>
HWY_INLINE void ForElements(int64_t count, const Function& function) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  constexpr int64_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) function(d, i);
  for (; i < count; ++i) function(OneLane(), i);
}

// add(d, i, sum) returns `sum` with the terms of the elements from i added: fl(sum + x) or fma(x, y, sum).
template <class Add>
HWY_INLINE float StripedRowSum(int64_t count, const Add& add) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, kStripes> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  constexpr int64_t kVectors = kStripes / kLanes;
  HWY_ALIGN float stripes[kStripes];
  hn::Vec<decltype(d)> sums[kVectors];
#pragma GCC unroll 16
  for (int64_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kStripes <= count; i += kStripes) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) sums[v] = add(d, i + v * kLanes, sums[v]);
  }
#pragma GCC unroll 16
  for (int64_t v = 0; v < kVectors; ++v) hn::Store(sums[v], d, stripes + v * kLanes);
  for (int64_t s = 0; i < count; ++i, ++s) {
    const OneLane one;
    hn::Store(add(one, i, hn::LoadU(one, stripes + s)), one, stripes + s);
  }
  return FoldStripes(stripes);
}

// function(d, in, out) maps vectors of each source to vectors of each destination.
template <int kSources, int kDestinations, class Function>
HWY_INLINE void MapElements(int64_t count, const float* const (&sources)[kSources],
                            float* const (&destinations)[kDestinations], const Function& function) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  hn::Vec<decltype(d)> in[kSources], out[kDestinations];
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int s = 0; s < kSources; ++s) in[s] = hn::LoadU(d, sources[s] + i);
    function(d, in, out);
    for (int s = 0; s < kDestinations; ++s) hn::StoreU(out[s], d, destinations[s] + i);
  }
  if (i == count) return;
  HWY_ALIGN float lanes[kLanes] = {};
  const size_t bytes = static_cast<size_t>(count - i) * sizeof(float);
  for (int s = 0; s < kSources; ++s) {
    std::memcpy(lanes, sources[s] + i, bytes);
    in[s] = hn::Load(d, lanes);
  }
  function(d, in, out);
  for (int s = 0; s < kDestinations; ++s) {
    hn::Store(out[s], d, lanes);
    std::memcpy(destinations[s] + i, lanes, bytes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
