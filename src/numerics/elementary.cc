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

namespace samestep {
namespace {

using namespace elementary;

template <size_t kCount>
double Polynomial(const double (&coefficients)[kCount], double x) {
  double sum = coefficients[kCount - 1];
  for (size_t i = kCount - 1; i-- > 0;) sum = std::fma(sum, x, coefficients[i]);
  return sum;
}

// 2^k for the integer k in the low bits of a sum with kRounder.
double PowerOfTwo(double rounded) {
  return std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) << 52) + (uint64_t{1023} << 52));
}

// exp(x) = 2^k * (1 + rest)
struct ScaledExp {
  double power;  // 2^k
  double rest;
};
ScaledExp ReducedExp(double x) {
  const double rounded = std::fma(x, kLog2E, kRounder);
  const double k = rounded - kRounder;
  const double r = std::fma(-k, kLn2Low, std::fma(-k, kLn2High, x));
  return {PowerOfTwo(rounded), std::fma(r * r, Polynomial(kExpm1, r), r)};
}

// exp(x) - 1, relatively accurate near 0.
double Expm1(double x) {
  const auto [power, rest] = ReducedExp(x);
  return std::fma(power, rest, power - 1);
}

float Clamped(float x, float least, float largest) { return x < least ? least : x > largest ? largest : x; }

}  // namespace

float Exp(float x) {
  if (std::isnan(x)) return x;
  const auto [power, rest] = ReducedExp(Clamped(x, kExpLeast, kExpLargest));
  return static_cast<float>(power * (1 + rest));
}

float ExpZ(float x) { return x < kExpZLeast ? 0.0f : Exp(x); }

float Exp2(float x) {
  if (std::isnan(x)) return x;
  const double clamped = Clamped(x, kExp2Least, kExp2Largest);
  const double rounded = clamped + kRounder;
  const double r = clamped - (rounded - kRounder);
  return static_cast<float>(PowerOfTwo(rounded) * std::fma(r, Polynomial(kExp2m1, r), 1.0));
}

// x = 2^k * m with m from sqrt(1/2) to sqrt(2). With f = m - 1 and s = f / (2 + f), log(m) is
// f - s * (f - R), where R is what the series of log((1+s)/(1-s)) / s has beyond 2.
float Log(float x) {
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
  return static_cast<float>(std::fma(k, kLn2High, std::fma(k, kLn2Low, log_m)));
}

float Tanh(float x) {
  if (std::isnan(x)) return x;
  const double magnitude = Clamped(std::fabs(x), 0, kTanhLargest);
  const double e = Expm1(magnitude + magnitude);
  return std::copysign(static_cast<float>(e / (e + 2)), x);
}

// erf(x) = 1 - exp(-q(x)) with a polynomial for q: relatively accurate near 0, and where erf is near 1 the
// polynomial may be coarse.
float Erf(float x) {
  if (std::isnan(x)) return x;
  const double magnitude = Clamped(std::fabs(x), 0, kErfLargest);
  const double minus_q = -magnitude * Polynomial(kErf, magnitude);
  return std::copysign(static_cast<float>(-Expm1(minus_q)), x);
}

float Sigmoid(float x) { return 1 / (1 + Exp(-x)); }

float Silu(float x) { return x * Sigmoid(x); }

float Gelu(float x) { return (0.5f * x) * (1 + Erf(x * kSqrtHalf)); }

float GeluDerivative(float x) {
  const float p = kNormalPeak * Exp((x * x) * -0.5f);
  return 0.5f * (1 + Erf(x * kSqrtHalf)) + (x * p);
}

namespace {
float GeluTanhArgument(float x) { return kSqrtTwoOverPi * (x + kGeluTanhCubic * ((x * x) * x)); }
}  // namespace

float GeluTanh(float x) { return (0.5f * x) * (1 + Tanh(GeluTanhArgument(x))); }

float GeluTanhDerivative(float x) {
  const float t = Tanh(GeluTanhArgument(x));
  return 0.5f * (1 + t) +
         (((0.5f * x) * (1 - t * t)) * (kSqrtTwoOverPi * (1 + (3 * kGeluTanhCubic) * (x * x))));
}

}  // namespace samestep
