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

#include <limits>

#include "numerics/elementary.h"
#include "numerics/elementary_constants.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

// Targets whose binary64 vectors have a fused multiply-add compute in them; on the others each lane goes
// through the scalar function, which is slow: they are for checking only.
#undef SAMESTEP_VECTOR_BINARY64
#if HWY_NATIVE_FMA && HWY_HAVE_FLOAT64
#define SAMESTEP_VECTOR_BINARY64 1
#else
#define SAMESTEP_VECTOR_BINARY64 0
#endif

#if SAMESTEP_VECTOR_BINARY64

namespace elementary_vector {
namespace hn = hwy::HWY_NAMESPACE;
namespace constants = samestep::elementary;

template <class DD, size_t kCount, class VD = hn::Vec<DD>>
HWY_INLINE VD Polynomial(DD dd, const double (&c)[kCount], VD x) {
  const VD z = hn::Mul(x, x);
  VD last = hn::Set(dd, c[kCount - 1]), before = hn::Set(dd, c[kCount - 2]);
  for (size_t i = kCount - 2; i-- > 0;) {
    const VD sum = hn::MulAdd(last, z, hn::Set(dd, c[i]));
    last = before;
    before = sum;
  }
  return hn::MulAdd(last, x, before);
}

// x times 2^k for the integer k in the low bits of a sum with kRounder; x and the result are
// normal.
template <class DD, class VD = hn::Vec<DD>>
HWY_INLINE VD Scaled(DD dd, VD x, VD rounded) {
  const hn::RebindToUnsigned<DD> du;
  return hn::BitCast(dd, hn::Add(hn::BitCast(du, x), hn::ShiftLeft<52>(hn::BitCast(du, rounded))));
}

// exp(x) = 2^k * (1 + rest), with k in the low bits of `rounded`.
template <class DD, class VD = hn::Vec<DD>>
HWY_INLINE void ReducedExp(DD dd, VD x, VD& rounded, VD& rest) {
  rounded = hn::MulAdd(x, hn::Set(dd, constants::kLog2E), hn::Set(dd, constants::kRounder));
  const VD k = hn::Sub(rounded, hn::Set(dd, constants::kRounder));
  const VD r = hn::NegMulAdd(k, hn::Set(dd, constants::kLn2Low),
                             hn::NegMulAdd(k, hn::Set(dd, constants::kLn2High), x));
  rest = hn::MulAdd(hn::Mul(r, r), Polynomial(dd, constants::kExpm1, r), r);
}

template <class DD, class VD = hn::Vec<DD>>
HWY_INLINE VD Expm1(DD dd, VD x) {
  VD rounded, rest;
  ReducedExp(dd, x, rounded, rest);
  const VD power = Scaled(dd, hn::Set(dd, 1.0), rounded);
  return hn::MulAdd(power, rest, hn::Sub(power, hn::Set(dd, 1.0)));
}

// What is computed in binary64 between promotion and the last rounding.
struct Exp {
  template <class DD, class VD = hn::Vec<DD>>
  HWY_INLINE VD operator()(DD dd, VD x) const {
    VD rounded, rest;
    ReducedExp(dd, x, rounded, rest);
    return Scaled(dd, hn::Add(hn::Set(dd, 1.0), rest), rounded);
  }
};
struct Exp2 {
  template <class DD, class VD = hn::Vec<DD>>
  HWY_INLINE VD operator()(DD dd, VD x) const {
    const VD rounded = hn::Add(x, hn::Set(dd, constants::kRounder));
    const VD r = hn::Sub(x, hn::Sub(rounded, hn::Set(dd, constants::kRounder)));
    return Scaled(dd, hn::MulAdd(r, Polynomial(dd, constants::kExp2m1, r), hn::Set(dd, 1.0)), rounded);
  }
};
struct Log {
  template <class DD, class VD = hn::Vec<DD>>
  HWY_INLINE VD operator()(DD dd, VD x) const {
    const hn::RebindToUnsigned<DD> du;
    const auto bits = hn::BitCast(du, x);
    const auto biased = hn::ShiftRight<52>(hn::Add(bits, hn::Set(du, constants::kSqrtHalfToOne)));
    // 2^52 + biased as a double, by its bits.
    const VD shifted = hn::BitCast(dd, hn::Or(biased, hn::Set(du, uint64_t{0x4330000000000000})));
    const VD k = hn::Sub(shifted, hn::Set(dd, 0x1p52 + 1023));
    const VD m =
        hn::BitCast(dd, hn::Add(hn::Sub(bits, hn::ShiftLeft<52>(biased)), hn::Set(du, constants::kOneBits)));
    const VD f = hn::Sub(m, hn::Set(dd, 1.0));
    const VD s = hn::Div(f, hn::Add(m, hn::Set(dd, 1.0)));
    const VD z = hn::Mul(s, s);
    const VD log_m = hn::NegMulAdd(s, hn::NegMulAdd(z, Polynomial(dd, constants::kLog, z), f), f);
    return hn::MulAdd(k, hn::Set(dd, constants::kLn2High),
                      hn::MulAdd(k, hn::Set(dd, constants::kLn2Low), log_m));
  }
};
struct Tanh {
  template <class DD, class VD = hn::Vec<DD>>
  HWY_INLINE VD operator()(DD dd, VD x) const {
    const VD e = Expm1(dd, hn::Add(x, x));
    return hn::Div(e, hn::Add(e, hn::Set(dd, 2.0)));
  }
};
struct Erf {
  template <class DD, class VD = hn::Vec<DD>>
  HWY_INLINE VD operator()(DD dd, VD x) const {
    return hn::Neg(Expm1(dd, hn::Mul(hn::Neg(x), Polynomial(dd, constants::kErf, x))));
  }
};

template <class D, class F, class V = hn::Vec<D>>
HWY_INLINE V ThroughBinary64(D d, V x, F function) {
  const hn::Half<D> half;
  const hn::Rebind<double, decltype(half)> dd;
  const auto low = function(dd, hn::PromoteTo(dd, hn::LowerHalf(half, x)));
  const auto high = function(dd, hn::PromoteTo(dd, hn::UpperHalf(half, x)));
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}

template <class D, size_t kCount, class V = hn::Vec<D>>
HWY_INLINE V WithExceptions(D d, const constants::Exception (&exceptions)[kCount], V x, V y) {
  const hn::RebindToUnsigned<D> du;
  for (const constants::Exception& exception : exceptions) {
    const V input = hn::BitCast(d, hn::Set(du, exception.input));
    y = hn::IfThenElse(hn::Eq(x, input), hn::BitCast(d, hn::Set(du, exception.result)), y);
  }
  return y;
}

// NaN where x is, else y. Clamping may have lost it: Min and Max differ between targets there.
template <class V>
HWY_INLINE V KeepNaN(V x, V y) {
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clamped(D d, V x, float least, float largest) {
  return hn::Min(hn::Max(x, hn::Set(d, least)), hn::Set(d, largest));
}

}  // namespace elementary_vector

#else

namespace elementary_vector {
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V LaneByLane(D d, V x, float (*function)(float)) {
  constexpr size_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(d);
  HWY_ALIGN float lanes[kLanes];
  hwy::HWY_NAMESPACE::Store(x, d, lanes);
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = function(lanes[i]);
  return hwy::HWY_NAMESPACE::Load(d, lanes);
}
}  // namespace elementary_vector

#endif  // SAMESTEP_VECTOR_BINARY64

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrExp(D d, V x) {
  namespace ev = elementary_vector;
#if SAMESTEP_VECTOR_BINARY64
  namespace constants = samestep::elementary;
  return ev::KeepNaN(
      x, ev::ThroughBinary64(d, ev::Clamped(d, x, constants::kExpLeast, constants::kExpLargest), ev::Exp()));
#else
  return ev::LaneByLane(d, x, samestep::Exp);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrExpZ(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V least = hn::Set(d, samestep::elementary::kExpZLeast);
  return hn::IfThenElse(hn::Lt(x, least), hn::Zero(d), CrExp(d, x));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrExp2(D d, V x) {
  namespace ev = elementary_vector;
#if SAMESTEP_VECTOR_BINARY64
  namespace constants = samestep::elementary;
  const V y =
      ev::ThroughBinary64(d, ev::Clamped(d, x, constants::kExp2Least, constants::kExp2Largest), ev::Exp2());
  return ev::KeepNaN(x, ev::WithExceptions(d, constants::kExp2Exceptions, x, y));
#else
  return ev::LaneByLane(d, x, samestep::Exp2);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrLog(D d, V x) {
  namespace ev = elementary_vector;
#if SAMESTEP_VECTOR_BINARY64
  namespace hn = hwy::HWY_NAMESPACE;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V zero = hn::Zero(d);
  V y = ev::ThroughBinary64(d, x, ev::Log());
  y = ev::WithExceptions(d, samestep::elementary::kLogExceptions, x, y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(x, infinity), y, x);  // NaN and infinity stay
#else
  return ev::LaneByLane(d, x, samestep::Log);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrTanh(D d, V x) {
  namespace ev = elementary_vector;
#if SAMESTEP_VECTOR_BINARY64
  namespace hn = hwy::HWY_NAMESPACE;
  const V magnitude = hn::Min(hn::Abs(x), hn::Set(d, samestep::elementary::kTanhLargest));
  return ev::KeepNaN(x, hn::CopySignToAbs(ev::ThroughBinary64(d, magnitude, ev::Tanh()), x));
#else
  return ev::LaneByLane(d, x, samestep::Tanh);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V CrErf(D d, V x) {
  namespace ev = elementary_vector;
#if SAMESTEP_VECTOR_BINARY64
  namespace hn = hwy::HWY_NAMESPACE;
  const V magnitude = hn::Min(hn::Abs(x), hn::Set(d, samestep::elementary::kErfLargest));
  return ev::KeepNaN(x, hn::CopySign(ev::ThroughBinary64(d, magnitude, ev::Erf()), x));
#else
  return ev::LaneByLane(d, x, samestep::Erf);
#endif
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, CrExp(d, hn::Neg(x))));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return hwy::HWY_NAMESPACE::Mul(x, Sigmoid(d, x));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V erf = CrErf(d, hn::Mul(x, hn::Set(d, samestep::elementary::kSqrtHalf)));
  return hn::Mul(hn::Mul(hn::Set(d, 0.5f), x), hn::Add(hn::Set(d, 1.0f), erf));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluDerivative(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V erf = CrErf(d, hn::Mul(x, hn::Set(d, samestep::elementary::kSqrtHalf)));
  const V exp = CrExp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f)));
  const V p = hn::Mul(hn::Set(d, samestep::elementary::kNormalPeak), exp);
  return hn::Add(hn::Mul(hn::Set(d, 0.5f), hn::Add(hn::Set(d, 1.0f), erf)), hn::Mul(x, p));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluTanhInner(D d, V x) {  // the tanh of gelu_tanh
  namespace hn = hwy::HWY_NAMESPACE;
  const V cube = hn::Mul(hn::Mul(x, x), x);
  const V sum = hn::Add(x, hn::Mul(hn::Set(d, samestep::elementary::kGeluTanhCubic), cube));
  return CrTanh(d, hn::Mul(hn::Set(d, samestep::elementary::kSqrtTwoOverPi), sum));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V t = GeluTanhInner(d, x);
  return hn::Mul(hn::Mul(hn::Set(d, 0.5f), x), hn::Add(hn::Set(d, 1.0f), t));
}

template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V GeluTanhDerivative(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const V half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  const V t = GeluTanhInner(d, x);
  const V slope = hn::Mul(hn::Set(d, 3 * samestep::elementary::kGeluTanhCubic), hn::Mul(x, x));
  const V inner = hn::Mul(hn::Set(d, samestep::elementary::kSqrtTwoOverPi), hn::Add(one, slope));
  const V outer = hn::Mul(hn::Mul(half, x), hn::Sub(one, hn::Mul(t, t)));
  return hn::Add(hn::Mul(half, hn::Add(one, t)), hn::Mul(outer, inner));
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
