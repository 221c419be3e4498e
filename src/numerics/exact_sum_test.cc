#include "numerics/exact_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "numerics/elementary_oracle.h"
#include "numerics/philox.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

// In 2000 bits, which hold any such sum exactly; rounded once.
double ByMpfr(const std::vector<float>& values, bool square) {
  mpfr_t sum, term;
  mpfr_init2(sum, 2000);
  mpfr_init2(term, 100);
  mpfr_set_zero(sum, 1);
  for (float value : values) {
    mpfr_set_flt(term, value, MPFR_RNDN);
    if (square) mpfr_sqr(term, term, MPFR_RNDN);
    mpfr_add(sum, sum, term, MPFR_RNDN);
  }
  const double result = mpfr_get_d(sum, MPFR_RNDN);
  mpfr_clear(sum);
  mpfr_clear(term);
  return result + 0.0;
}

// Random signs and significands; exponents from `least` to `largest`.
std::vector<float> Values(uint64_t seed, size_t count, uint32_t least, uint32_t largest) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto words = RandomBlock(seed, i, 0, 0);
    values[i] = FromBits((words[0] & 0x807FFFFF) | (least + words[1] % (largest - least + 1)) << 23);
  }
  return values;
}

ExactSum SumOf(const std::vector<float>& values, bool square) {
  ExactSum sum;
  square ? sum.AddSquares(values) : sum.Add(values);
  return sum;
}

uint64_t DoubleBits(double x) { return std::bit_cast<uint64_t>(x); }

TEST(ExactSum, EqualsMpfrOnEveryTarget) {
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    for (size_t count : {0, 1, 2, 7, 8, 9, 1000, 1024, 1025, 5000}) {
      for (auto [least, largest] :
           {std::pair{127, 127}, {100, 130}, {60, 130}, {40, 140}, {0, 254}, {0, 0}, {0, 40}, {250, 254}}) {
        const auto values = Values(count + static_cast<size_t>(least), count, least, largest);
        for (bool square : {false, true}) {
          const ExactSum sum = SumOf(values, square);
          ASSERT_EQ(DoubleBits(sum.Round()), DoubleBits(ByMpfr(values, square)))
              << target << " " << count << " " << least << "-" << largest << (square ? " squares" : "");
          // One at a time, from the back, in two sums that are merged: the same state.
          ExactSum front, back;
          for (size_t i = count; i-- > 0;) {
            ExactSum& part = i % 3 == 0 ? front : back;
            square ? part.AddSquares({&values[i], 1}) : part.Add(values[i]);
          }
          front.Merge(back);
          ASSERT_EQ(front, sum);
          ASSERT_EQ(ExactSum::FromState(sum.State()), sum);
        }
      }
    }
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

TEST(ExactSum, CancelsWithoutATrace) {
  std::vector<float> values = Values(5, 3000, 0, 254);
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  std::reverse(values.begin() + 17, values.end());
  EXPECT_EQ(SumOf(values, false), ExactSum());
  EXPECT_EQ(DoubleBits(SumOf(values, false).Round()), 0u);
  values.push_back(FromBits(1));
  EXPECT_EQ(SumOf(values, false).Round(), 0x1p-149);
  EXPECT_NE(SumOf(values, false), ExactSum());
}

TEST(ExactSum, RoundsTiesToEven) {
  const auto rounded = [](std::vector<float> values) { return SumOf(values, false).Round(); };
  EXPECT_EQ(rounded({1, 0x1p-53f}), 1.0);
  EXPECT_EQ(rounded({1, 0x1p-53f, 0x1p-149f}), 1 + 0x1p-52);
  EXPECT_EQ(rounded({1, 0x1p-52f, 0x1p-53f}), 1 + 0x1p-51);
  EXPECT_EQ(rounded({-1, -0x1p-52f, -0x1p-53f}), -1 - 0x1p-51);
  EXPECT_EQ(rounded({1, -0x1p-54f}), 1.0);
  EXPECT_EQ(rounded({1, -0x1p-54f, -0x1p-149f}), 1 - 0x1p-53);
  EXPECT_EQ(DoubleBits(rounded({-0.0f, -0.0f})), 0u);
}

TEST(ExactSum, SaysWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(100, 1);
  values[50] = infinity;
  EXPECT_EQ(SumOf(values, false).Round(), infinity);
  EXPECT_FALSE(SumOf(values, false).IsFinite());
  values[3] = -infinity;
  EXPECT_TRUE(std::isnan(SumOf(values, false).Round()));
  EXPECT_EQ(SumOf(values, true).Round(), infinity);
  EXPECT_EQ(SumOf({-infinity}, false).Round(), -infinity);
  EXPECT_TRUE(std::isnan(SumOf({1, std::numeric_limits<float>::quiet_NaN()}, true).Round()));
  ExactSum merged = SumOf({1}, false);
  merged.Merge(SumOf({-infinity}, false));
  EXPECT_EQ(merged.Round(), -infinity);
}

}  // namespace
}  // namespace samestep
