// fma-inl.h: a multiply-add that is rounded once on every target.
//
//   sum = ExactMulAdd(d, a, b, sum);      // fma(a, b, sum)
//   sum = ExactNegMulAdd(d, a, b, sum);   // fma(-a, b, sum)
//
// Highway's MulAdd rounds twice where the target has no such instruction (HWY_NATIVE_FMA == 0); there each
// lane goes through std::fma, which is slow and exact. Those targets are for checking only.
//
// Determinism: the same bits on every target.
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_NUMERICS_FMA_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_NUMERICS_FMA_INL_H_
#undef SAMESTEP_NUMERICS_FMA_INL_H_
#else
#define SAMESTEP_NUMERICS_FMA_INL_H_
#endif

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V ExactMulAdd(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hwy::HWY_NAMESPACE::MulAdd(a, b, c);
#else
  using T = hwy::HWY_NAMESPACE::TFromD<D>;
  constexpr size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(d);
  HWY_ALIGN T lanes_a[kLanes], lanes_b[kLanes], lanes_c[kLanes];
  hwy::HWY_NAMESPACE::Store(a, d, lanes_a);
  hwy::HWY_NAMESPACE::Store(b, d, lanes_b);
  hwy::HWY_NAMESPACE::Store(c, d, lanes_c);
  for (size_t i = 0; i < kLanes; ++i) lanes_c[i] = std::fma(lanes_a[i], lanes_b[i], lanes_c[i]);
  return hwy::HWY_NAMESPACE::Load(d, lanes_c);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V ExactNegMulAdd(D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  (void)d;
  return hwy::HWY_NAMESPACE::NegMulAdd(a, b, c);
#else
  return ExactMulAdd(d, hwy::HWY_NAMESPACE::Neg(a), b, c);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
