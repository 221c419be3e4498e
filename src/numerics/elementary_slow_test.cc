// All 2^32 inputs of Exp, Exp2, Log, Tanh and Erf, scalar and vector, against an independent evaluation.
//
// Inputs are taken in chunks of 2^16 neighbours, chunks in blocks. In a block around c, with t = x - c
// (exact),
//
//   f(x) = a0 + a1*t + a2*t^2 + a3*t^3 + a4*t^4 + remainder
//
// where a0 is held as two binary64 numbers from MPFR at 200 bits (error below 2^-104 of it), a1 to a4 are
// binary64 and |remainder| <= bound5 * |t|^5 with a bound5 that is proven for each function below. All
// rounding errors together are below 2^-49 of the sum of |ak * t^k|, k >= 1 (about twenty operations of
// 2^-53). That decides each input unless f(x) is closer than the error to the middle of two neighbours: those
// few "near ties" are decided by MPFR itself.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

#include "base/parallel_for.h"
#include "numerics/elementary.h"
#include "numerics/elementary_arrays.h"
#include "numerics/elementary_oracle.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

constexpr int64_t kChunk = 1 << 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// f around c.
struct Expansion {
  double high, low;  // a0
  double a1, a2, a3, a4;
  double bound5;
};

// 200 bits, freed with its scope.
struct Real {
  Real() { mpfr_init2(value, 200); }
  ~Real() { mpfr_clear(value); }
  Real(const Real&) = delete;
  mpfr_t value;
};

void SetLeading(const Real& a0, Expansion& e) {
  Real rest;
  e.high = mpfr_get_d(a0.value, MPFR_RNDN);
  mpfr_sub_d(rest.value, a0.value, e.high, MPFR_RNDN);
  e.low = mpfr_get_d(rest.value, MPFR_RNDN);
}

// exp(c+t) = exp(c) * sum t^k/k!; the remainder is exp(c) * exp(|t|) * |t|^5/120 and |t| <= 1/2.
Expansion ExpandExp(double c) {
  Real a0;
  mpfr_set_d(a0.value, c, MPFR_RNDN);
  mpfr_exp(a0.value, a0.value, MPFR_RNDN);
  Expansion e;
  SetLeading(a0, e);
  const double f = e.high;
  e.a1 = f, e.a2 = f / 2, e.a3 = f / 6, e.a4 = f / 24, e.bound5 = f * 2 / 120;
  return e;
}

// As exp with t * ln 2.
Expansion ExpandExp2(double c) {
  Real a0;
  mpfr_set_d(a0.value, c, MPFR_RNDN);
  mpfr_exp2(a0.value, a0.value, MPFR_RNDN);
  Expansion e;
  SetLeading(a0, e);
  const double f = e.high, l = 0x1.62e42fefa39efp-1;
  e.a1 = f * l, e.a2 = f * l * l / 2, e.a3 = f * l * l * l / 6, e.a4 = f * l * l * l * l / 24;
  e.bound5 = f * 2 / 120;
  return e;
}

// log(c+t) = log(c) + u - u^2/2 + ..., u = t/c; the remainder is |u|^5/5 / (1-|u|)^5 and |u| <= 1/8.
Expansion ExpandLog(double c) {
  Real a0;
  mpfr_set_d(a0.value, c, MPFR_RNDN);
  mpfr_log(a0.value, a0.value, MPFR_RNDN);
  Expansion e;
  SetLeading(a0, e);
  e.a1 = 1 / c, e.a2 = -1 / (2 * c * c), e.a3 = 1 / (3 * c * c * c), e.a4 = -1 / (4 * c * c * c * c);
  e.bound5 = 0.4 / (c * c * c * c * c);
  return e;
}

// With T = tanh(c) and S = 1 - T^2. On a circle of radius 1 around a real number |tanh| <= tan(1) < 1.6, so
// by Cauchy |a5| and all later coefficients are below 1.6; for |t| <= 1/8 the remainder is below 2 * |t|^5.
Expansion ExpandTanh(double c) {
  Real t, s;
  mpfr_set_d(t.value, c, MPFR_RNDN);
  mpfr_tanh(t.value, t.value, MPFR_RNDN);
  Expansion e;
  SetLeading(t, e);
  mpfr_sqr(s.value, t.value, MPFR_RNDN);
  mpfr_ui_sub(s.value, 1, s.value, MPFR_RNDN);
  const double T = e.high, S = mpfr_get_d(s.value, MPFR_RNDN);
  e.a1 = S, e.a2 = -T * S, e.a3 = S * (3 * T * T - 1) / 3, e.a4 = T * S * (2 - 3 * T * T) / 3, e.bound5 = 2;
  return e;
}

// With g = 2/sqrt(pi) * exp(-c^2). |a5| = 2/sqrt(pi) * |H4(c)| * exp(-c^2) / 120 < 0.21 by Cramer's bound on
// Hermite polynomials, which holds for the derivative between c and x as well.
Expansion ExpandErf(double c) {
  Real a0, g, root;
  mpfr_set_d(a0.value, c, MPFR_RNDN);
  mpfr_sqr(g.value, a0.value, MPFR_RNDN);
  mpfr_neg(g.value, g.value, MPFR_RNDN);
  mpfr_exp(g.value, g.value, MPFR_RNDN);
  mpfr_mul_ui(g.value, g.value, 2, MPFR_RNDN);
  mpfr_const_pi(root.value, MPFR_RNDN);
  mpfr_sqrt(root.value, root.value, MPFR_RNDN);
  mpfr_div(g.value, g.value, root.value, MPFR_RNDN);
  mpfr_erf(a0.value, a0.value, MPFR_RNDN);
  Expansion e;
  SetLeading(a0, e);
  e.a1 = mpfr_get_d(g.value, MPFR_RNDN);
  e.a2 = -c * e.a1, e.a3 = e.a1 * (2 * c * c - 1) / 3, e.a4 = e.a1 * c * (3 - 2 * c * c) / 6, e.bound5 = 0.21;
  return e;
}

struct Function {
  const char* name;
  float (*scalar)(float);
  Elementary vector;
  MpfrFunction mpfr;
  Expansion (*expand)(double c);
  // From this magnitude on the result is that at the end of the axis, since the function is monotonic and
  // already nearest to it there. Log has none.
  float saturated;
};

constexpr Function kExpFunction = {"exp", Exp, Elementary::kExp, mpfr_exp, ExpandExp, 128};
constexpr Function kExp2Function = {"exp2", Exp2, Elementary::kExp2, mpfr_exp2, ExpandExp2, 256};
constexpr Function kLogFunction = {"log", Log, Elementary::kLog, mpfr_log, ExpandLog, INFINITY};
constexpr Function kTanhFunction = {"tanh", Tanh, Elementary::kTanh, mpfr_tanh, ExpandTanh, 16};
constexpr Function kErfFunction = {"erf", Erf, Elementary::kErf, mpfr_erf, ExpandErf, 4};

struct Findings {
  std::atomic<int64_t> decided = 0;    // by the expansion
  std::atomic<int64_t> near_ties = 0;  // by MPFR, too close for the expansion
  std::atomic<int64_t> by_mpfr = 0;    // by MPFR, where no expansion was made
  std::atomic<int64_t> other = 0;      // saturated, NaN
  std::atomic<int64_t> wrong = 0;
  std::mutex mutex;
  std::vector<uint32_t> first_wrong;
  void Wrong(uint32_t bits) {
    if (wrong++ < 100) {
      const std::lock_guard lock(mutex);
      first_wrong.push_back(bits);
    }
  }
};

bool SameValue(float a, float b) { return (std::isnan(a) && std::isnan(b)) || Bits(a) == Bits(b); }

// The float's value, but 2^128 for infinity: so rounding overflows where IEEE says.
double Extended(float x) { return std::isinf(x) ? std::copysign(0x1p128, x) : x; }

// Half the way from g to the neighbour below and above. g is not NaN.
struct HalfGaps {
  double below, above;
};
HalfGaps GapsOf(float g) {
  const float infinity = std::numeric_limits<float>::infinity();
  const double value = Extended(g);
  return {g == -infinity ? kInfinity : (value - Extended(std::nextafterf(g, -infinity))) / 2,
          g == infinity ? kInfinity : (Extended(std::nextafterf(g, infinity)) - value) / 2};
}

void CheckByMpfr(const Function& function, uint32_t bits, float got, Findings& findings) {
  if (!SameValue(MpfrRounded(function.mpfr, FromBits(bits)), got)) findings.Wrong(bits);
}

// Checks results[i] for the inputs first + i, i < count, which share sign and exponent.
void CheckBlock(const Function& function, uint32_t first, int64_t count, const float* results,
                Findings& findings) {
  const double c = FromBits(first + static_cast<uint32_t>(count / 2));
  const Expansion e = function.expand(c);
  const double h = std::max(std::fabs(FromBits(first) - c),
                            std::fabs(FromBits(first + static_cast<uint32_t>(count - 1)) - c));
  const double moved =
      h * (std::fabs(e.a1) + h * (std::fabs(e.a2) + h * (std::fabs(e.a3) + h * std::fabs(e.a4))));
  const double error = 0x1p-49 * moved + 0x1p-100 * std::fabs(e.high) + 1.01 * e.bound5 * h * h * h * h * h;
  const bool positive = e.high > moved + error;  // in the whole block
  int64_t undecided = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = first + static_cast<uint32_t>(i);
    const float g = results[i];
    if (std::isnan(g)) {
      findings.Wrong(bits);
      continue;
    }
    const double t = FromBits(bits) - c;
    const double f_minus_g =
        (e.high - Extended(g)) + (e.low + t * (e.a1 + t * (e.a2 + t * (e.a3 + t * e.a4))));
    const HalfGaps gaps = GapsOf(g);
    // Strictly inside, with the error to spare. A zero must have the sign of f.
    if (f_minus_g - error > -gaps.below && f_minus_g + error < gaps.above &&
        (g != 0 || (positive && !std::signbit(g))))
      continue;
    ++undecided;
    CheckByMpfr(function, bits, g, findings);
  }
  findings.near_ties += undecided;
  findings.decided += count - undecided;
}

// The size of blocks of the chunk that starts at `first`: a power of two, or 0 to ask MPFR for each input.
int64_t BlockSize(const Function& function, uint32_t first) {
  const double a = std::fabs(FromBits(first)), b = std::fabs(FromBits(first + kChunk - 1));
  const double ulp = (b - a) / (kChunk - 1);
  double scale = 1;  // exp, exp2, tanh, erf vary over 1; log over x, and near 1 it must be exact relatively
  if (function.vector == Elementary::kLog)
    scale = a * std::min({1.0, std::fabs(std::log(a)), std::fabs(std::log(b))});
  if (function.vector == Elementary::kLog && a <= 1 && 1 <= b) return 0;
  const double largest = 0x1p-12 * scale / ulp;  // half a block, in inputs
  int64_t size = kChunk;
  while (size / 2 > largest && size > 1) size /= 2;
  return size < 8 ? 0 : size;
}

// Inputs of one chunk, results already computed.
void CheckChunk(const Function& function, uint32_t first, const float* results, Findings& findings) {
  const bool negative = (first >> 31) != 0;
  const bool is_log = function.vector == Elementary::kLog;
  const float start = FromBits(first);
  if ((first & 0x7F800000) == 0x7F800000 || (is_log && negative) || std::fabs(start) >= function.saturated) {
    const float end = negative ? -INFINITY : INFINITY;
    const float expected = std::isinf(function.saturated) ? end : MpfrRounded(function.mpfr, end);
    for (int64_t i = 0; i < kChunk; ++i) {
      const float x = FromBits(first + static_cast<uint32_t>(i));
      float want = expected;
      if (std::isnan(x) || (is_log && x < 0)) want = NAN;
      if (is_log && x == 0) want = -INFINITY;
      if (!SameValue(results[i], want)) findings.Wrong(first + static_cast<uint32_t>(i));
    }
    findings.other += kChunk;
    return;
  }
  const int64_t size = BlockSize(function, first);
  if (size == 0) {
    for (int64_t i = 0; i < kChunk; ++i)
      CheckByMpfr(function, first + static_cast<uint32_t>(i), results[i], findings);
    findings.by_mpfr += kChunk;
    return;
  }
  for (int64_t i = 0; i < kChunk; i += size)
    CheckBlock(function, first + static_cast<uint32_t>(i), size, results + i, findings);
}

std::vector<float> ChunkOf(uint32_t first) {
  std::vector<float> inputs(kChunk);
  for (int64_t i = 0; i < kChunk; ++i) inputs[i] = FromBits(first + static_cast<uint32_t>(i));
  return inputs;
}

void CheckAll(const Function& function) {
  ASSERT_TRUE(ForceSimdTarget("best").ok());
  const auto begin = std::chrono::steady_clock::now();
  Findings findings;
  std::atomic<int64_t> vector_differs = 0;
  ParallelFor((int64_t{1} << 32) / kChunk, [&](int64_t chunk) {
    const uint32_t first = static_cast<uint32_t>(chunk * kChunk);
    const std::vector<float> inputs = ChunkOf(first);
    std::vector<float> scalar(kChunk), vector(kChunk);
    for (int64_t i = 0; i < kChunk; ++i) scalar[i] = function.scalar(inputs[i]);
    ApplyElementary(function.vector, inputs.data(), vector.data(), kChunk);
    for (int64_t i = 0; i < kChunk; ++i) vector_differs += !SameValue(scalar[i], vector[i]);
    CheckChunk(function, first, scalar.data(), findings);
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf(
      "%s on %s: %lld decided by expansion, %lld near ties, %lld by MPFR alone, %lld saturated or NaN; %.0f "
      "s\n",
      function.name, CurrentSimdTarget().c_str(), static_cast<long long>(findings.decided),
      static_cast<long long>(findings.near_ties), static_cast<long long>(findings.by_mpfr),
      static_cast<long long>(findings.other), seconds.count());
  EXPECT_EQ(findings.decided + findings.near_ties + findings.by_mpfr + findings.other, int64_t{1} << 32);
  EXPECT_EQ(vector_differs, 0) << "vector and scalar";
  EXPECT_EQ(findings.wrong, 0);
  for (uint32_t bits : findings.first_wrong) {
    ADD_FAILURE() << function.name << " of bits " << std::hex << bits << " gives "
                  << Bits(function.scalar(FromBits(bits))) << ", correctly rounded "
                  << Bits(MpfrRounded(function.mpfr, FromBits(bits)));
  }
}

TEST(ElementaryExhaustive, Exp) { CheckAll(kExpFunction); }
TEST(ElementaryExhaustive, Exp2) { CheckAll(kExp2Function); }
TEST(ElementaryExhaustive, Log) { CheckAll(kLogFunction); }
TEST(ElementaryExhaustive, Tanh) { CheckAll(kTanhFunction); }
TEST(ElementaryExhaustive, Erf) { CheckAll(kErfFunction); }

// The check can fail. It must find one wrong bit among right results,
TEST(ElementaryExhaustive, ControlOneWrongBit) {
  for (const Function& function : {kExpFunction, kExp2Function, kLogFunction, kTanhFunction, kErfFunction}) {
    const uint32_t first = Bits(0.6640625f) & 0xFFFF0000;
    const std::vector<float> inputs = ChunkOf(first);
    std::vector<float> results(kChunk);
    for (int64_t i = 0; i < kChunk; ++i) results[i] = function.scalar(inputs[i]);
    Findings right;
    CheckChunk(function, first, results.data(), right);
    EXPECT_EQ(right.wrong, 0) << function.name;
    results[12345] = std::nextafterf(results[12345], 1);
    Findings wrong;
    CheckChunk(function, first, results.data(), wrong);
    EXPECT_EQ(wrong.first_wrong, std::vector<uint32_t>{first + 12345}) << function.name;
  }
}

// and a function that is off by 2^-45 before its last rounding, which no sample of inputs would show.
TEST(ElementaryExhaustive, ControlNearMiss) {
  Findings findings;
  ParallelFor(1024, [&](int64_t chunk) {
    const uint32_t first =
        Bits(0.5f) + static_cast<uint32_t>(chunk % 128 * kChunk) + static_cast<uint32_t>(chunk / 128 << 23);
    const std::vector<float> inputs = ChunkOf(first);
    std::vector<float> results(kChunk);
    for (int64_t i = 0; i < kChunk; ++i)
      results[i] = static_cast<float>(std::exp(static_cast<double>(inputs[i])) * (1 + 0x1p-45));
    CheckChunk(kExpFunction, first, results.data(), findings);
  });
  EXPECT_GT(findings.wrong, 0);
  EXPECT_LT(findings.wrong, 1000);  // of 67 million
}

}  // namespace
}  // namespace samestep
