// A sample of inputs; elementary_slow_test.cc tries all of them.
#include "numerics/elementary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "numerics/elementary_arrays.h"
#include "numerics/elementary_constants.h"
#include "numerics/elementary_oracle.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Zeros, subnormals, limits, thresholds and their neighbours, listed exceptions, and one input in `stride`.
std::vector<float> Inputs(uint64_t stride) {
  std::vector<float> inputs = {0.0f, -0.0f, kInf, -kInf, kNaN, -kNaN};
  std::vector<uint32_t> centres = {0x00000001, 0x00800000, 0x007FFFFF, 0x7F7FFFFF,
                                   0x3F800000, 0x33000000, 0x33800000};
  for (float x :
       {elementary::kExpLargest, -elementary::kExpLeast, elementary::kExp2Largest, -elementary::kExp2Least,
        elementary::kTanhLargest, elementary::kErfLargest, -elementary::kExpZLeast, 88.72284f, 103.97208f,
        149.0f, 150.0f, 126.0f, 0.70710678f, 1.41421356f, 0.34657359f, 9.010914f, 3.919206f}) {
    centres.push_back(Bits(x));
  }
  for (const elementary::Exception& exception : elementary::kExp2Exceptions)
    centres.push_back(exception.input);
  for (const elementary::Exception& exception : elementary::kLogExceptions)
    centres.push_back(exception.input);
  for (uint32_t centre : centres) {
    for (uint32_t bits = centre - 3; bits != centre + 4; ++bits) {
      inputs.push_back(FromBits(bits));
      inputs.push_back(FromBits(bits ^ 0x80000000));
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride)
    inputs.push_back(FromBits(static_cast<uint32_t>(bits)));
  return inputs;
}

bool SameValue(float a, float b) { return (std::isnan(a) && std::isnan(b)) || Bits(a) == Bits(b); }

std::string Text(float x) { return std::to_string(x) + " (bits " + std::to_string(Bits(x)) + ")"; }

TEST(Elementary, CorrectlyRoundedOnASample) {
  struct Case {
    const char* name;
    float (*function)(float);
    MpfrFunction exact;
  };
  const std::vector<float> inputs = Inputs(199'999);
  for (const Case& c : {Case{"exp", Exp, mpfr_exp},
                        {"exp2", Exp2, mpfr_exp2},
                        {"log", Log, mpfr_log},
                        {"tanh", Tanh, mpfr_tanh},
                        {"erf", Erf, mpfr_erf}}) {
    for (float x : inputs)
      ASSERT_TRUE(SameValue(c.function(x), MpfrRounded(c.exact, x))) << c.name << " of " << Text(x);
  }
}

TEST(Elementary, VectorsHaveTheBitsOfScalarsOnEveryTarget) {
  struct Case {
    const char* name;
    float (*scalar)(float);
    Elementary vector;
  };
  const std::vector<float> inputs = Inputs(99'991);
  const int64_t count = static_cast<int64_t>(inputs.size());
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    for (const Case& c : {Case{"exp", Exp, Elementary::kExp},
                          {"exp2", Exp2, Elementary::kExp2},
                          {"log", Log, Elementary::kLog},
                          {"tanh", Tanh, Elementary::kTanh},
                          {"erf", Erf, Elementary::kErf},
                          {"expz", ExpZ, Elementary::kExpZ},
                          {"sigmoid", Sigmoid, Elementary::kSigmoid},
                          {"silu", Silu, Elementary::kSilu},
                          {"gelu", Gelu, Elementary::kGelu},
                          {"gelu derivative", GeluDerivative, Elementary::kGeluDerivative},
                          {"gelu_tanh", GeluTanh, Elementary::kGeluTanh},
                          {"gelu_tanh derivative", GeluTanhDerivative, Elementary::kGeluTanhDerivative}}) {
      std::vector<float> outputs(inputs.size());
      ApplyElementary(c.vector, inputs.data(), outputs.data(), count);
      for (size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_TRUE(SameValue(outputs[i], c.scalar(inputs[i])))
            << c.name << " of " << Text(inputs[i]) << " on " << target;
      }
      // Odd lengths write what they should and nothing behind it.
      for (int64_t length : {0, 1, 3, 5, 15, 17, 31}) {
        std::vector<float> part(static_cast<size_t>(length) + 1, -7);
        ApplyElementary(c.vector, inputs.data() + 100, part.data(), length);
        for (int64_t i = 0; i < length; ++i)
          ASSERT_TRUE(SameValue(part[i], outputs[100 + i])) << c.name << " on " << target;
        ASSERT_EQ(part.back(), -7);
      }
    }
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

TEST(Elementary, Specials) {
  EXPECT_EQ(Exp(kInf), kInf);
  EXPECT_EQ(Bits(Exp(-kInf)), 0u);
  EXPECT_EQ(Log(0.0f), -kInf);
  EXPECT_EQ(Log(-0.0f), -kInf);
  EXPECT_TRUE(std::isnan(Log(-1)));
  EXPECT_EQ(Bits(Tanh(-0.0f)), 0x80000000u);
  EXPECT_EQ(Bits(Erf(-0.0f)), 0x80000000u);
  EXPECT_EQ(Bits(ExpZ(-87.00001f)), 0u);
  EXPECT_GT(ExpZ(-87), 0);
  EXPECT_EQ(Bits(ExpZ(-kInf)), 0u);
  EXPECT_TRUE(std::isnan(ExpZ(kNaN)));  // a NaN must reach the loss
  EXPECT_EQ(Sigmoid(-kInf), 0);
  EXPECT_EQ(Sigmoid(0), 0.5f);
}

// The activations by the page, from functions that MPFR rounds.
TEST(Elementary, ActivationsAreTheWrittenSequences) {
  EXPECT_EQ(Bits(elementary::kSqrtHalf), 0x3f3504f3u);
  EXPECT_EQ(Bits(elementary::kNormalPeak), 0x3ecc422au);
  EXPECT_EQ(Bits(elementary::kSqrtTwoOverPi), 0x3f4c422au);
  EXPECT_EQ(Bits(elementary::kGeluTanhCubic), 0x3d372713u);
  const float c = elementary::kSqrtHalf, b = elementary::kNormalPeak, k = elementary::kSqrtTwoOverPi,
              a = elementary::kGeluTanhCubic;
  for (float x = -9; x < 9; x += 0.0173f) {
    const float sigmoid = 1 / (1 + MpfrRounded(mpfr_exp, -x));
    EXPECT_EQ(Bits(Sigmoid(x)), Bits(sigmoid));
    EXPECT_EQ(Bits(Silu(x)), Bits(x * sigmoid));
    const float erf = MpfrRounded(mpfr_erf, x * c);
    EXPECT_EQ(Bits(Gelu(x)), Bits((0.5f * x) * (1 + erf)));
    const float p = b * MpfrRounded(mpfr_exp, (x * x) * -0.5f);
    EXPECT_EQ(Bits(GeluDerivative(x)), Bits(0.5f * (1 + erf) + (x * p)));
    const float t = MpfrRounded(mpfr_tanh, k * (x + a * ((x * x) * x)));
    EXPECT_EQ(Bits(GeluTanh(x)), Bits((0.5f * x) * (1 + t)));
    EXPECT_EQ(Bits(GeluTanhDerivative(x)),
              Bits(0.5f * (1 + t) + (((0.5f * x) * (1 - t * t)) * (k * (1 + (3 * a) * (x * x))))));
  }
}

}  // namespace
}  // namespace samestep
