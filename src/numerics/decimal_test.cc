#include "numerics/decimal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/parallel_for.h"
#include "numerics/elementary_oracle.h"
#include "numerics/philox.h"

namespace samestep {
namespace {

Decimal Of(std::string_view text) { return Decimal::Parse(text).value(); }

TEST(Decimal, ReadsWhatRecipesWrite) {
  for (const auto& [text, canonical] : {std::pair{"0.001", "1e-3"},
                                        {"1e-8", "1e-8"},
                                        {"3E-4", "3e-4"},
                                        {"-2", "-2"},
                                        {"10_000", "1e4"},
                                        {"+0.95", "95e-2"},
                                        {"1.50e+2", "15e1"},
                                        {"0", "0"},
                                        {"-0.000e5", "0"},
                                        {"007", "7"},
                                        {"0e999999999", "0"}}) {
    ASSERT_TRUE(Decimal::Parse(text).ok()) << text;
    EXPECT_EQ(Of(text).ToString(), canonical);
    EXPECT_EQ(Of(Of(text).ToString()), Of(text));
  }
  EXPECT_EQ(Decimal(), Of("0"));
  EXPECT_EQ(Decimal::Of(-1500), Of("-1.5e3"));
}

TEST(Decimal, RefusesTheRest) {
  for (const char* text : {"",
                           "-",
                           ".5",
                           "5.",
                           "1e",
                           "1e+",
                           "1__0",
                           "_1",
                           "1_",
                           "1_.5",
                           "0x10",
                           "nan",
                           "inf",
                           "1 ",
                           " 1",
                           "1,5",
                           "1e1.5",
                           "--1",
                           "1e-101",
                           "1e101",
                           "1e99999999999999999999",
                           "1e-99999999999999999999",
                           "1234567890123456789012345678901234567890123456789012345678901"}) {
    const Result<Decimal> result = Decimal::Parse(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), StatusCode::kUsage);
  }
  EXPECT_FALSE(Decimal::Parse(std::string("1\0", 2)).ok());
  EXPECT_FALSE(Decimal::Parse(std::string(1'000'000, '9')).ok());
  EXPECT_LT(Decimal::Parse(std::string(1'000'000, '9')).status().message().size(), 200u);
}

TEST(Decimal, OrdersByValue) {
  const std::vector<Decimal> ascending = {Of("-1e3"), Of("-2"),   Of("-1.5"),  Of("-1e-9"), Of("0"),
                                          Of("1e-9"), Of("0.95"), Of("0.951"), Of("0.96"),  Of("1"),
                                          Of("1.01"), Of("2"),    Of("12"),    Of("1e3")};
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(ascending[i] <=> ascending[j], i <=> j)
          << ascending[i].ToString() << " " << ascending[j].ToString();
    }
  }
}

// The bits of what follows come from exact rational arithmetic in another language.
TEST(Decimal, RoundsOnce) {
  for (const auto& [text, bits] : {std::pair{"0.1", 0x3dcccccdu},
                                   {"1e-8", 0x322bcc77},
                                   {"0.00001", 0x3727c5ac},
                                   {"16777217", 0x4b800000},
                                   {"16777219", 0x4b800002},
                                   {"-0.3", 0xbe99999a},
                                   {"1e-45", 0x00000001},
                                   {"7e-46", 0x00000000},
                                   {"7.1e-46", 0x00000001},
                                   {"33554434.000000000000000000000000000001", 0x4c000001},
                                   {"1e39", 0x7f800000},
                                   {"-0", 0x00000000}}) {
    EXPECT_EQ(Bits(Of(text).ToFloat()), bits) << text;
  }
  for (uint64_t i = 0; i < 2000; ++i) {
    const auto words = RandomBlock(1, i, 0, 0);
    const std::string text = std::to_string(words[0]) + "." + std::to_string(words[1]) + "e" +
                             std::to_string(static_cast<int>(words[2] % 100) - 60);
    EXPECT_EQ(Bits(Of(text).ToFloat()), Bits(std::strtof(text.c_str(), nullptr))) << text;
    EXPECT_EQ(Of(text).ToDouble(), std::strtod(text.c_str(), nullptr)) << text;
  }
}

TEST(Decimal, AdamsConstants) {
  for (const auto& [b, t, bits] : {std::tuple{"0.9", 1, 0x41200000u},
                                   {"0.9", 2, 0x40a86bca},
                                   {"0.9", 1000, 0x3f800000},
                                   {"0.95", 7, 0x40542851},
                                   {"0.999", 1, 0x447a0000},
                                   {"0.999", 12345, 0x3f800024},
                                   {"0.9999999", 3, 0x4a4b7357},
                                   {"0", 5, 0x3f800000},
                                   {"0.5", 1, 0x40000000}}) {
    EXPECT_EQ(Bits(InverseOneMinusPower(Of(b), t)), bits) << b << " " << t;
  }
  // So close to 1 that the first precision cannot tell: 1 / 1e-60.
  EXPECT_EQ(InverseOneMinusPower(Of("0.99999999999999999999999999999999999"), 1), 1e35f);
  for (const auto& [x, bits] : {std::pair{"0.9", 0x3dcccccdu},
                                {"0.95", 0x3d4ccccd},
                                {"0.999", 0x3a83126f},
                                {"1", 0},
                                {"0.1", 0x3f666666},
                                {"1e-8", 0x3f800000},
                                {"0.99999999", 0x322bcc77}}) {
    EXPECT_EQ(Bits(OneMinus(Of(x))), bits) << x;
  }
}

TEST(Decimal, Schedules) {
  struct Case {
    const char* from;
    const char* to;
    int64_t numerator, denominator;
    uint32_t bits;
  };
  for (const Case& c : {Case{"0", "0.001", 1, 2000, 0x350637bd},
                        {"0", "6e-4", 7, 715, 0x36c51a5b},
                        {"3e-4", "3e-5", 99, 100, 0x3809275c},
                        {"0.001", "0", 1, 3, 0x3a2ec33e},
                        {"-1", "2", 1, 3, 0}}) {
    EXPECT_EQ(Bits(LinearBetween(Of(c.from), Of(c.to), c.numerator, c.denominator)), c.bits)
        << c.from << " " << c.to;
  }
  for (const Case& c : {Case{"6e-4", "6e-5", 1, 600, 0x3a1d4912},
                        {"6e-4", "6e-5", 300, 600, 0x39ad03da},
                        {"0.001", "0", 1, 3, 0x3a449ba6},
                        {"0.001", "0", 2, 3, 0x3983126f},
                        {"0.001", "0.0001", 599, 600, 0x38d1ba67},
                        {"1", "2", 17, 100, 0x3f88e99a}}) {
    EXPECT_EQ(Bits(CosineBetween(Of(c.from), Of(c.to), c.numerator, c.denominator)), c.bits)
        << c.from << " " << c.to;
  }
  EXPECT_EQ(CosineBetween(Of("0.3"), Of("0.1"), 0, 7), 0.3f);
  EXPECT_EQ(CosineBetween(Of("0.3"), Of("0.1"), 7, 7), 0.1f);
  EXPECT_EQ(LinearBetween(Of("0"), Of("0.1"), 7, 7), 0.1f);
  // Ties to even where the exact value is the middle of two neighbours, but not by exact operations: thirds.
  EXPECT_EQ(LinearBetween(Of("0"), Of("50331651"), 1, 3), 16777216.0f);
  EXPECT_EQ(LinearBetween(Of("0"), Of("50331657"), 1, 3), 16777220.0f);
  EXPECT_EQ(CosineBetween(Of("33554434"), Of("0"), 1, 2), 16777216.0f);
  EXPECT_EQ(CosineBetween(Of("33554438"), Of("0"), 1, 2), 16777220.0f);
}

TEST(Rope, KnownValues) {
  struct Case {
    int64_t position, i, head_size;
    const char* base;
    uint32_t cos, sin;
  };
  for (const Case& c : {Case{0, 0, 64, "10000", 0x3f800000, 0},
                        {1, 0, 64, "10000", 0x3f0a5140, 0x3f576aa4},
                        {1, 31, 64, "10000", 0x3f800000, 0x390bd471},
                        {4095, 5, 128, "500000", 0x3e9a179f, 0xbf742182},
                        {131071, 1, 128, "500000", 0xbf513ba2, 0x3f138127},
                        {2147483647, 0, 8, "10000", 0xbf30579a, 0xbf399422},
                        {355, 0, 8, "10000", 0xbf800000, 0xb7fcde82},
                        {710, 0, 2, "10000", 0x3f800000, 0x387cde82}}) {
    const CosSin exact = RopeCosSin(c.position, c.i, c.head_size, Of(c.base));
    EXPECT_EQ(Bits(exact.cos), c.cos) << c.position << " " << c.i;
    EXPECT_EQ(Bits(exact.sin), c.sin) << c.position << " " << c.i;
    std::vector<float> cos(static_cast<size_t>(c.head_size / 2)), sin = cos;
    RopeTable(c.position, 1, c.head_size, Of(c.base), cos.data(), sin.data());
    EXPECT_EQ(Bits(cos[static_cast<size_t>(c.i)]), c.cos);
    EXPECT_EQ(Bits(sin[static_cast<size_t>(c.i)]), c.sin);
  }
}

TEST(Rope, TableEqualsMpfr) {
  for (const auto& [base, first] :
       {std::pair{"10000", int64_t{0}}, {"500000.5", 30}, {"1", 900}, {"1e6", 2147483000}}) {
    constexpr int64_t kPositions = 40, kHeadSize = 96, kColumns = kHeadSize / 2;
    std::vector<float> cos(kPositions * kColumns), sin = cos;
    RopeTable(first, kPositions, kHeadSize, Of(base), cos.data(), sin.data());
    const Decimal exact_base = Of(base);
    std::vector<int> wrong(kPositions);  // MPFR in several threads at once
    ParallelFor(kPositions, [&, start = first](int64_t row) {
      for (int64_t i = 0; i < kColumns; ++i) {
        const CosSin exact = RopeCosSin(start + row, i, kHeadSize, exact_base);
        const auto element = static_cast<size_t>(row * kColumns + i);
        wrong[static_cast<size_t>(row)] +=
            Bits(cos[element]) != Bits(exact.cos) || Bits(sin[element]) != Bits(exact.sin);
      }
    });
    EXPECT_EQ(std::count(wrong.begin(), wrong.end(), 0), kPositions) << base;
  }
  EXPECT_TRUE(mpfr_buildopt_tls_p());
}

TEST(Rope, TableIsFast) {
  std::vector<float> cos(4096 * 64), sin = cos;
  const auto begin = std::chrono::steady_clock::now();
  RopeTable(0, 4096, 128, Of("10000"), cos.data(), sin.data());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1000));
  EXPECT_LT(seconds.count(), 2) << "17 ms when written; MPFR for each element would take seconds";
}

}  // namespace
}  // namespace samestep
