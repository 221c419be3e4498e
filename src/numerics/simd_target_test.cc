#include "numerics/simd_target.h"

#include <gtest/gtest.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/simd_target_test.cc"
#include "numerics/targets.h"
//
#include "hwy/foreach_target.h"
#include "numerics/fma-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

int64_t TargetThatRuns() { return HWY_TARGET; }

// (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 with one rounding, 0 with two.
float FusedLane(float a, float b, float c, bool negative) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  using hwy::HWY_NAMESPACE::Set;
  const auto result = negative ? ExactNegMulAdd(d, Set(d, a), Set(d, b), Set(d, c))
                               : ExactMulAdd(d, Set(d, a), Set(d, b), Set(d, c));
  return hwy::HWY_NAMESPACE::GetLane(result);
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {
HWY_EXPORT(TargetThatRuns);
HWY_EXPORT(FusedLane);
namespace {

TEST(SimdTarget, ForcedTargetRuns) {
  const std::vector<std::string> names = AvailableSimdTargets();
  ASSERT_FALSE(names.empty());
  std::vector<int64_t> ran;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) {
      ASSERT_TRUE(ForceSimdTarget(name).ok());
      EXPECT_EQ(CurrentSimdTarget(), name);
      const int64_t target = HWY_DYNAMIC_DISPATCH(TargetThatRuns)();
      if (round == 0) ran.push_back(target);
    }
  }
  for (size_t i = 1; i < ran.size(); ++i) EXPECT_LT(ran[i - 1], ran[i]);  // each ran, best first
  ASSERT_TRUE(ForceSimdTarget("best").ok());
  EXPECT_EQ(CurrentSimdTarget(), names.front());
  EXPECT_EQ(HWY_DYNAMIC_DISPATCH(TargetThatRuns)(), ran.front());
}

TEST(SimdTarget, UnknownNameIsRefusedWithWhatThereIs) {
  const Status status = ForceSimdTarget("avx9");
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_NE(status.message().find(AvailableSimdTargets().front()), std::string::npos) << status.message();
}

TEST(Fma, RoundsOnceOnEveryTarget) {
  const float a = 1 + 0x1p-12f;
  for (const std::string& name : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(name).ok());
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FusedLane)(a, a, -(1 + 0x1p-11f), false), 0x1p-24f) << name;
    EXPECT_EQ(HWY_DYNAMIC_DISPATCH(FusedLane)(a, a, 1 + 0x1p-11f, true), -0x1p-24f) << name;
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

}  // namespace
}  // namespace samestep
#endif  // HWY_ONCE
