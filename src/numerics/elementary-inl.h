// elementary-inl.h: the functions of elementary.h for vectors of the target that is being compiled.
//
//   const hwy::HWY_NAMESPACE::ScalableTag<float> d;
//   p = CrExpZ(d, Sub(z, m));
//   y = Gelu(d, x);
//
// Inside HWY_NAMESPACE these names hide the scalar ones; write samestep::Gelu(x) for those.
//
// Determinism: the same bits as the scalar functions on every target (NaN payloads apart).
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_NUMERICS_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_NUMERICS_ELEMENTARY_INL_H_
#undef SAMESTEP_NUMERICS_ELEMENTARY_INL_H_
#else
#define SAMESTEP_NUMERICS_ELEMENTARY_INL_H_
#endif

#include "numerics/elementary.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

// Each lane through a scalar function: slow, for targets without a fused multiply-add on binary64.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V LaneByLane(D d, V x, float (*function)(float)) {
  constexpr size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(d);
  HWY_ALIGN float lanes[kLanes];
  hwy::HWY_NAMESPACE::Store(x, d, lanes);
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = function(lanes[i]);
  return hwy::HWY_NAMESPACE::Load(d, lanes);
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrExp(D d, V x) {
  return LaneByLane(d, x, samestep::Exp);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrExpZ(D d, V x) {
  return LaneByLane(d, x, samestep::ExpZ);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrExp2(D d, V x) {
  return LaneByLane(d, x, samestep::Exp2);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrLog(D d, V x) {
  return LaneByLane(d, x, samestep::Log);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrTanh(D d, V x) {
  return LaneByLane(d, x, samestep::Tanh);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrErf(D d, V x) {
  return LaneByLane(d, x, samestep::Erf);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  return LaneByLane(d, x, samestep::Sigmoid);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return LaneByLane(d, x, samestep::Silu);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  return LaneByLane(d, x, samestep::Gelu);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluDerivative(D d, V x) {
  return LaneByLane(d, x, samestep::GeluDerivative);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  return LaneByLane(d, x, samestep::GeluTanh);
}
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluTanhDerivative(D d, V x) {
  return LaneByLane(d, x, samestep::GeluTanhDerivative);
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
