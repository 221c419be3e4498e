#include "numerics/elementary_arrays.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/elementary_arrays.cc"
#include "numerics/targets.h"
//
#include "hwy/foreach_target.h"
#include "numerics/elementary-inl.h"

#ifndef SAMESTEP_NUMERICS_ELEMENTARY_ARRAYS_ONCE_
#define SAMESTEP_NUMERICS_ELEMENTARY_ARRAYS_ONCE_
#include <algorithm>
#include <cstring>
#endif

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

template <class F>
HWY_INLINE void ForEachVector(const float* in, float* out, int64_t count, F function) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(function(d, hn::LoadU(d, in + i)), d, out + i);
  if (i == count) return;
  HWY_ALIGN float tail[hn::MaxLanes(d)] = {};
  std::memcpy(tail, in + i, (count - i) * sizeof(float));
  hn::Store(function(d, hn::Load(d, tail)), d, tail);
  std::memcpy(out + i, tail, (count - i) * sizeof(float));
}

void ApplyElementaryTarget(Elementary function, const float* in, float* out, int64_t count) {
  const auto each = [=](auto f) { ForEachVector(in, out, count, f); };
  switch (function) {
    case Elementary::kExp:
      return each([](auto d, auto x) HWY_ATTR { return CrExp(d, x); });
    case Elementary::kExp2:
      return each([](auto d, auto x) HWY_ATTR { return CrExp2(d, x); });
    case Elementary::kLog:
      return each([](auto d, auto x) HWY_ATTR { return CrLog(d, x); });
    case Elementary::kTanh:
      return each([](auto d, auto x) HWY_ATTR { return CrTanh(d, x); });
    case Elementary::kErf:
      return each([](auto d, auto x) HWY_ATTR { return CrErf(d, x); });
    case Elementary::kExpZ:
      return each([](auto d, auto x) HWY_ATTR { return CrExpZ(d, x); });
    case Elementary::kSigmoid:
      return each([](auto d, auto x) HWY_ATTR { return Sigmoid(d, x); });
    case Elementary::kSilu:
      return each([](auto d, auto x) HWY_ATTR { return Silu(d, x); });
    case Elementary::kGelu:
      return each([](auto d, auto x) HWY_ATTR { return Gelu(d, x); });
    case Elementary::kGeluDerivative:
      return each([](auto d, auto x) HWY_ATTR { return GeluDerivative(d, x); });
    case Elementary::kGeluTanh:
      return each([](auto d, auto x) HWY_ATTR { return GeluTanh(d, x); });
    case Elementary::kGeluTanhDerivative:
      return each([](auto d, auto x) HWY_ATTR { return GeluTanhDerivative(d, x); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {
HWY_EXPORT(ApplyElementaryTarget);

void ApplyElementary(Elementary function, const float* in, float* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ApplyElementaryTarget)(function, in, out, count);
}

}  // namespace samestep
#endif  // HWY_ONCE
