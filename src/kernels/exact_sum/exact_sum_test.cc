#include "kernels/exact_sum/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/test_tensor.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

Tensor NewState() { return Tensor::Zeros({kExactSumWords}, DType::kI64); }

TEST(ExactSumKernel, CancelsExactly) {
  Tensor x = Tensor::Zeros({4}), state = NewState();
  x.f32()[0] = 0x1p100f, x.f32()[1] = 1, x.f32()[2] = 0x1p-100f, x.f32()[3] = -0x1p100f;
  ExactSumOf(x.view(), state.view(), false, false);
  EXPECT_EQ(RoundExactSum(state.view()), 1);
  ExactSumOf(x.view(), state.view(), true, false);
  EXPECT_EQ(RoundExactSum(state.view()), 0x1p201);
}

TEST(ExactSumKernel, PartsInAnyOrderHaveTheStateOfTheWhole) {
  Tensor x = Normals({60, 1021}, 1);
  for (const bool squares : {false, true}) {
    Tensor whole = NewState(), parts = NewState();
    ExactSumOf(x.view(), whole.view(), squares, false);
    for (const int64_t first : {40, 0, 20}) {
      ExactSumOf(x.view().Slice(first, 20), parts.view(), squares, true);
    }
    EXPECT_TRUE(SameBits(whole.view(), parts.view()));
    long double expected = 0;
    for (int64_t i = 0; i < x.elements(); ++i) {
      const long double value = x.f32()[i];
      expected += squares ? value * value : value;
    }
    EXPECT_NEAR(RoundExactSum(whole.view()), static_cast<double>(expected), 1e-11);
  }
}

// How far apart the exponents of a chunk are decides how its terms are split.
TEST(ExactSumKernel, AnySpreadOfExponents) {
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    for (const int spread : {0, 5, 9, 17, 18, 19, 20, 29, 37, 38, 57, 58, 59, 60, 79, 99, 120, 200, 253}) {
      Tensor x = Normals({2500}, static_cast<uint64_t>(spread));
      for (int64_t i = 0; i < x.elements(); ++i) {
        const auto exponent =
            static_cast<int>(SplitMix(static_cast<uint64_t>(i)) % static_cast<uint64_t>(spread + 1));
        x.f32()[i] =
            std::ldexp(std::copysign(std::fmod(x.f32()[i], 1.0f) / 2 + 1, x.f32()[i]), exponent - 126);
      }
      for (const bool squares : {false, true}) {
        Tensor fast = NewState(), reference = NewState();
        ExactSumOf(x.view(), fast.view(), squares, false);
        CallContext::Current().use_reference = true;
        ExactSumOf(x.view(), reference.view(), squares, false);
        CallContext::Current().use_reference = false;
        EXPECT_TRUE(SameBits(fast.view(), reference.view())) << target << " " << spread << " " << squares;
      }
    }
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

TEST(ExactSumKernel, NoTermsIsZero) { EXPECT_EQ(RoundExactSum(NewState().view()), 0); }

TEST(ExactSumKernel, InfinityAndNaNStayVisible) {
  Tensor x = Tensor::Zeros({2}), state = NewState();
  x.f32()[1] = INFINITY;
  ExactSumOf(x.view(), state.view(), false, false);
  EXPECT_EQ(RoundExactSum(state.view()), INFINITY);
  x.f32()[0] = NAN;
  ExactSumOf(x.view(), state.view(), true, true);
  EXPECT_TRUE(std::isnan(RoundExactSum(state.view())));
}

}  // namespace
}  // namespace samestep
