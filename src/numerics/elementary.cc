// The elementary functions, one value at a time. elementary-inl.h has the same operations on vectors.
//
// A binary32 result is right if the binary64 value before the last rounding is within 2^-50 or so of the
// exact one, unless the exact one is that close to the middle of two neighbours. The slow test tries all
// inputs and names those for which it is; they are listed where they occur.
#include "numerics/elementary.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "numerics/elementary_constants.h"

// Inlined into each of the two forms of a function, see Run.
#define SAMESTEP_INLINE inline __attribute__((always_inline))

namespace samestep {
namespace elementary {
namespace {

using Function = float (*)(float);

// x86-64 without options has no fused multiply-add, and std::fma is then a call into libm: exact, but slow.
// The same code compiled for machines that have one is several times faster.
#if defined(__x86_64__)
const bool kHasFma = __builtin_cpu_supports("fma");

template <Function kFunction>
__attribute__((target("fma"))) float Fused(float x) {
  return kFunction(x);
}
template <Function kFunction>
float Run(float x) {
  return kHasFma ? Fused<kFunction>(x) : kFunction(x);
}
#else
template <Function kFunction>
float Run(float x) {
  return kFunction(x);
}
#endif

// c[0] + c[1]*x + ..., even and odd powers apart: two short chains of operations in place of a long one.
template <size_t kCount>
SAMESTEP_INLINE double Polynomial(const double (&c)[kCount], double x) {
  const double z = x * x;
  double last = c[kCount - 1], before = c[kCount - 2];
  for (size_t i = kCount - 2; i-- > 0;) {
    const double sum = std::fma(last, z, c[i]);
    last = before;
    before = sum;
  }
  return std::fma(last, x, before);
}

// 2^k for the integer k in the low bits of a sum with kRounder.
SAMESTEP_INLINE double PowerOfTwo(double rounded) {
  return std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) << 52) + (uint64_t{1023} << 52));
}

// exp(x) = 2^k * (1 + rest)
struct ScaledExp {
  double power;  // 2^k
  double rest;
};
SAMESTEP_INLINE ScaledExp ReducedExp(double x) {
  const double rounded = std::fma(x, kLog2E, kRounder);
  const double k = rounded - kRounder;
  const double r = std::fma(-k, kLn2Low, std::fma(-k, kLn2High, x));
  return {PowerOfTwo(rounded), std::fma(r * r, Polynomial(kExpm1, r), r)};
}

// exp(x) - 1, relatively accurate near 0.
SAMESTEP_INLINE double Expm1(double x) {
  const auto [power, rest] = ReducedExp(x);
  return std::fma(power, rest, power - 1);
}

SAMESTEP_INLINE float Clamped(float x, float least, float largest) {
  return x < least ? least : x > largest ? largest : x;
}

template <size_t kCount>
SAMESTEP_INLINE float WithExceptions(const Exception (&exceptions)[kCount], float x, float y) {
  for (const Exception& exception : exceptions) {
    if (std::bit_cast<uint32_t>(x) == exception.input) return std::bit_cast<float>(exception.result);
  }
  return y;
}

SAMESTEP_INLINE float ExpOnce(float x) {
  if (std::isnan(x)) return x;
  const auto [power, rest] = ReducedExp(Clamped(x, kExpLeast, kExpLargest));
  return static_cast<float>(power * (1 + rest));
}

SAMESTEP_INLINE float Exp2Once(float x) {
  if (std::isnan(x)) return x;
  const double clamped = Clamped(x, kExp2Least, kExp2Largest);
  const double rounded = clamped + kRounder;
  const double r = clamped - (rounded - kRounder);
  const double y = PowerOfTwo(rounded) * std::fma(r, Polynomial(kExp2m1, r), 1.0);
  return WithExceptions(kExp2Exceptions, x, static_cast<float>(y));
}

// x = 2^k * m with m from sqrt(1/2) to sqrt(2). With f = m - 1 and s = f / (2 + f), log(m) is
// f - s * (f - R), where R is what the series of log((1+s)/(1-s)) / s has beyond 2.
SAMESTEP_INLINE float LogOnce(float x) {
  if (std::isnan(x) || x == std::numeric_limits<float>::infinity()) return x;
  if (x == 0) return -std::numeric_limits<float>::infinity();
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(x));
  const uint64_t biased = (bits + kSqrtHalfToOne) >> 52;
  const double k = static_cast<double>(static_cast<int64_t>(biased) - 1023);
  const double m = std::bit_cast<double>(bits - (biased << 52) + kOneBits);
  const double f = m - 1;
  const double s = f / (m + 1);
  const double z = s * s;
  const double log_m = std::fma(-s, std::fma(-z, Polynomial(kLog, z), f), f);
  const double y = std::fma(k, kLn2High, std::fma(k, kLn2Low, log_m));
  return WithExceptions(kLogExceptions, x, static_cast<float>(y));
}

SAMESTEP_INLINE float TanhOnce(float x) {
  if (std::isnan(x)) return x;
  const double magnitude = Clamped(std::fabs(x), 0, kTanhLargest);
  const double e = Expm1(magnitude + magnitude);
  return std::copysign(static_cast<float>(e / (e + 2)), x);
}

// erf(x) = 1 - exp(-q(x)) with a polynomial for q: relatively accurate near 0, and where erf is near 1 the
// polynomial may be coarse.
SAMESTEP_INLINE float ErfOnce(float x) {
  if (std::isnan(x)) return x;
  const double magnitude = Clamped(std::fabs(x), 0, kErfLargest);
  const double minus_q = -magnitude * Polynomial(kErf, magnitude);
  return std::copysign(static_cast<float>(-Expm1(minus_q)), x);
}

}  // namespace
}  // namespace elementary

float Exp(float x) { return elementary::Run<elementary::ExpOnce>(x); }
float Exp2(float x) { return elementary::Run<elementary::Exp2Once>(x); }
float Log(float x) { return elementary::Run<elementary::LogOnce>(x); }
float Tanh(float x) { return elementary::Run<elementary::TanhOnce>(x); }
float Erf(float x) { return elementary::Run<elementary::ErfOnce>(x); }

float ExpZ(float x) { return x < elementary::kExpZLeast ? 0.0f : Exp(x); }

float Sigmoid(float x) { return 1 / (1 + Exp(-x)); }

float Silu(float x) { return x * Sigmoid(x); }

float Gelu(float x) { return (0.5f * x) * (1 + Erf(x * elementary::kSqrtHalf)); }

float GeluDerivative(float x) {
  const float p = elementary::kNormalPeak * Exp((x * x) * -0.5f);
  return 0.5f * (1 + Erf(x * elementary::kSqrtHalf)) + (x * p);
}

namespace {
float GeluTanhArgument(float x) {
  return elementary::kSqrtTwoOverPi * (x + elementary::kGeluTanhCubic * ((x * x) * x));
}
}  // namespace

float GeluTanh(float x) { return (0.5f * x) * (1 + Tanh(GeluTanhArgument(x))); }

float GeluTanhDerivative(float x) {
  const float t = Tanh(GeluTanhArgument(x));
  return 0.5f * (1 + t) + (((0.5f * x) * (1 - t * t)) *
                           (elementary::kSqrtTwoOverPi * (1 + (3 * elementary::kGeluTanhCubic) * (x * x))));
}

}  // namespace samestep
