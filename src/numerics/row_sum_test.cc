#include <gtest/gtest.h>

#include <vector>

#include "numerics/elementary_oracle.h"
#include "numerics/philox.h"
#include "numerics/simd_target.h"
#include "numerics/sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/row_sum_test.cc"
#include "numerics/targets.h"
//
#include "hwy/foreach_target.h"
#include "numerics/row_sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {
float RowSumTarget(const float* x, int64_t count) { return RowSum(x, count); }
float RowDotTarget(const float* x, const float* y, int64_t count) { return RowDot(x, y, count); }
float RowMaxTarget(const float* x, int64_t count) { return RowMax(x, count); }
}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {
HWY_EXPORT(RowSumTarget);
HWY_EXPORT(RowDotTarget);
HWY_EXPORT(RowMaxTarget);
namespace {

// Values over `binades` powers of two from 2^least, signs mixed.
std::vector<float> Values(uint64_t seed, int64_t count, int least, uint32_t binades) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto words = RandomBlock(seed, static_cast<uint64_t>(i), 0, 0);
    const uint32_t exponent = static_cast<uint32_t>(127 + least) + words[1] % binades;
    values.push_back(FromBits((words[0] & 0x807FFFFF) | exponent << 23));
  }
  return values;
}

TEST(RowSum, EqualsTheReferenceOnEveryTarget) {
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    for (int64_t count = 0; count < 200; ++count) {
      // The second kind underflows to -0 now and then, which padding with zeros would turn into +0.
      for (const auto& [least, binades] : {std::pair{-8, 16u}, {-90, 20u}}) {
        const int64_t offset = count % 5;  // not aligned
        const auto x = Values(static_cast<uint64_t>(count), count + 8, least, binades);
        const auto y = Values(static_cast<uint64_t>(count) + 1000, count + 8, least, binades);
        const float* px = x.data() + offset;
        const float* py = y.data() + offset;
        ASSERT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowSumTarget)(px, count)), Bits(RowSum({px}, count)))
            << target << count;
        ASSERT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowDotTarget)(px, py, count)), Bits(RowDot({px}, {py}, count)))
            << target << count;
        if (count == 0) continue;
        ASSERT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowMaxTarget)(px, count)), Bits(RowMax({px}, count)))
            << target << count;
      }
    }
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

TEST(RowSum, TinyNegativeProductsStayNegativeZero) {
  const float tiny = 0x1p-100f;
  const float y = -tiny;
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    std::vector<float> x(16, tiny), z(16, y);
    EXPECT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowDotTarget)(x.data(), z.data(), 16)), 0x80000000u) << target;
    EXPECT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowDotTarget)(x.data(), z.data(), 15)), 0u) << target;
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

TEST(RowSum, MaximumOfZerosIsPositive) {
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    for (int64_t at = 0; at < 40; ++at) {
      std::vector<float> x(40, -0.0f);
      EXPECT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowMaxTarget)(x.data(), 40)), 0x80000000u) << target;
      x[static_cast<size_t>(at)] = 0.0f;
      EXPECT_EQ(Bits(HWY_DYNAMIC_DISPATCH(RowMaxTarget)(x.data(), 40)), 0u) << target << at;
    }
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

}  // namespace
}  // namespace samestep
#endif  // HWY_ONCE
