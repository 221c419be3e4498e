#include "numerics/exact_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/exact_sum.cc"
#include "numerics/targets.h"
//
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef SAMESTEP_NUMERICS_EXACT_SUM_ONCE_
#define SAMESTEP_NUMERICS_EXACT_SUM_ONCE_

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace samestep {
namespace {

// A block's terms are below 2^E. Level 0 takes each term's multiple of 2^(E-43), level 1 what is left (at
// most 2^(E-44)) in the same way, and so on. 2^10 terms of 43 bits make 53: every binary64 addition is exact.
constexpr int64_t kBlock = 1024;
constexpr int kLevelBits = 43;
constexpr int kUsualLevels = 3;  // enough where magnitudes lie within 2^41 of the largest
constexpr int kMostLevels = 6;   // within 2^107

struct LevelSums {
  double sum[kMostLevels];
  bool complete;  // nothing is left beyond the last level
};

constexpr int LevelExponent(int exponent, int level) { return exponent - level * (kLevelBits + 1); }

}  // namespace
}  // namespace samestep
#endif

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

// The largest magnitude, as bits. count is a multiple of the lanes of binary64.
uint32_t LargestMagnitude(const float* values, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> dd;
  const hn::Rebind<uint32_t, decltype(dd)> du;
  const hn::Rebind<float, decltype(dd)> d;
  const int64_t lanes = hn::Lanes(dd);
  auto largest = hn::Zero(du);
  for (int64_t i = 0; i < count; i += lanes) {
    largest = hn::Max(largest, hn::BitCast(du, hn::Abs(hn::LoadU(d, values + i))));
  }
  HWY_ALIGN uint32_t each[hn::MaxLanes(dd)];
  hn::Store(largest, du, each);
  uint32_t result = 0;
  for (int64_t lane = 0; lane < lanes; ++lane) result = each[lane] > result ? each[lane] : result;
  return result;
}

template <bool kSquares, int kLevels>
LevelSums SumLevels(const float* values, int64_t count, int exponent) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> d;
  using VD = hn::Vec<decltype(dd)>;
  const int64_t lanes = hn::Lanes(dd);
  VD rounder[kLevels], sum[kLevels];
  for (int level = 0; level < kLevels; ++level) {
    rounder[level] = hn::Set(dd, std::ldexp(0x1.8p52, LevelExponent(exponent, level) - kLevelBits));
    sum[level] = hn::Zero(dd);
  }
  VD left_over = hn::Zero(dd);
  for (int64_t i = 0; i < count; i += lanes) {
    const VD value = hn::PromoteTo(dd, hn::LoadU(d, values + i));
    VD rest = kSquares ? hn::Mul(value, value) : value;
    for (int level = 0; level < kLevels; ++level) {
      const VD part = hn::Sub(hn::Add(rest, rounder[level]), rounder[level]);
      sum[level] = hn::Add(sum[level], part);
      rest = hn::Sub(rest, part);
    }
    left_over = hn::Or(left_over, rest);
  }
  LevelSums result = {};
  HWY_ALIGN double each[hn::MaxLanes(dd)];
  hn::Store(left_over, dd, each);
  result.complete = true;
  for (int64_t lane = 0; lane < lanes; ++lane) result.complete = result.complete && each[lane] == 0;
  for (int level = 0; level < kLevels; ++level) {
    hn::Store(sum[level], dd, each);
    for (int64_t lane = 0; lane < lanes; ++lane) result.sum[level] += each[lane];
  }
  return result;
}

LevelSums SumBlock(const float* values, int64_t count, int exponent, bool square) {
  LevelSums sums = square ? SumLevels<true, kUsualLevels>(values, count, exponent)
                          : SumLevels<false, kUsualLevels>(values, count, exponent);
  if (sums.complete) return sums;
  return square ? SumLevels<true, kMostLevels>(values, count, exponent)
                : SumLevels<false, kMostLevels>(values, count, exponent);
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {
HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(SumBlock);

namespace {

constexpr int64_t kMostLanes = 8;  // of binary64, on any target
constexpr int kUnit = -298;        // the exponent of the least significant bit
constexpr uint32_t kInfinityBits = 0x7F800000;

}  // namespace

void ExactSum::AddInteger(uint64_t magnitude, int exponent, bool negative) {
  const int shift = exponent - kUnit;
  SAMESTEP_CHECK(shift >= 0);
  size_t word = static_cast<size_t>(shift / 64);
  const int bits = shift % 64;
  SAMESTEP_CHECK(word + 1 < kWords);
  const uint64_t parts[2] = {magnitude << bits, bits == 0 ? 0 : magnitude >> (64 - bits)};
  unsigned char carry = 0;
  for (size_t i = 0; word < kWords && (i < 2 || carry != 0); ++i, ++word) {
    const uint64_t part = i < 2 ? parts[i] : 0;
    const uint64_t before = words_[word];
    if (negative) {
      words_[word] = before - part - carry;
      carry = before < part || (before == part && carry != 0);
    } else {
      words_[word] = before + part + carry;
      carry = words_[word] < before || (words_[word] == before && carry != 0);
    }
  }
}

void ExactSum::AddDouble(double value) {
  if (value == 0) return;
  int exponent;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [1/2, 1)
  uint64_t magnitude = static_cast<uint64_t>(std::ldexp(fraction, 53));
  exponent -= 53;
  const int zeros = std::countr_zero(magnitude);
  AddInteger(magnitude >> zeros, exponent + zeros, std::signbit(value));
}

void ExactSum::AddOne(float value, bool square) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & kInfinityBits) == kInfinityBits) {
    if (std::isnan(value)) {
      nan_ = true;
    } else {
      (square || value > 0 ? positive_infinity_ : negative_infinity_) = true;
    }
    return;
  }
  const uint32_t field = bits >> 23 & 0xFF;
  const uint64_t significand = (bits & 0x7FFFFF) | (field == 0 ? 0 : 0x800000);
  const int exponent = (field == 0 ? 1 : static_cast<int>(field)) - 150;
  if (square) {
    AddInteger(significand * significand, 2 * exponent, false);
  } else {
    AddInteger(significand, exponent, (bits >> 31) != 0);
  }
}

void ExactSum::AddAll(std::span<const float> values, bool square) {
  size_t first = 0;
  while (values.size() - first >= kMostLanes) {
    const int64_t rest = static_cast<int64_t>(values.size() - first);
    const int64_t count = rest < kBlock ? rest / kMostLanes * kMostLanes : kBlock;
    AddBlock(values.subspan(first, static_cast<size_t>(count)), square);
    first += static_cast<size_t>(count);
  }
  for (float value : values.subspan(first)) AddOne(value, square);
}

void ExactSum::AddBlock(std::span<const float> values, bool square) {
  const int64_t count = static_cast<int64_t>(values.size());
  const uint32_t largest = HWY_DYNAMIC_DISPATCH(LargestMagnitude)(values.data(), count);
  if (largest == 0) return;
  if (largest < kInfinityBits) {
    const int field = static_cast<int>(largest >> 23);
    const int above = (field == 0 ? 1 : field) - 126;  // all values are below 2^above
    const int exponent = square ? 2 * above : above;
    const LevelSums sums = HWY_DYNAMIC_DISPATCH(SumBlock)(values.data(), count, exponent, square);
    if (sums.complete) {
      for (double sum : sums.sum) AddDouble(sum);
      return;
    }
  }
  for (float value : values) AddOne(value, square);
}

void ExactSum::Merge(const ExactSum& other) {
  unsigned char carry = 0;
  for (size_t i = 0; i < kWords; ++i) {
    const uint64_t before = words_[i];
    words_[i] = before + other.words_[i] + carry;
    carry = words_[i] < before || (words_[i] == before && carry != 0);
  }
  positive_infinity_ = positive_infinity_ || other.positive_infinity_;
  negative_infinity_ = negative_infinity_ || other.negative_infinity_;
  nan_ = nan_ || other.nan_;
}

double ExactSum::Round() const {
  if (nan_ || (positive_infinity_ && negative_infinity_)) return std::numeric_limits<double>::quiet_NaN();
  if (positive_infinity_) return std::numeric_limits<double>::infinity();
  if (negative_infinity_) return -std::numeric_limits<double>::infinity();
  const bool negative = (words_[kWords - 1] >> 63) != 0;
  std::array<uint64_t, kWords> magnitude = words_;
  if (negative) {
    bool carry = true;
    for (uint64_t& word : magnitude) {
      word = ~word + (carry ? 1 : 0);
      carry = carry && word == 0;
    }
  }
  int top = kWords - 1;
  while (top >= 0 && magnitude[static_cast<size_t>(top)] == 0) --top;
  if (top < 0) return 0;
  const auto at = [&](int word) { return word < 0 ? uint64_t{0} : magnitude[static_cast<size_t>(word)]; };
  const int zeros = std::countl_zero(at(top));
  // The leading 64 bits, then whether anything follows them.
  const uint64_t leading = zeros == 0 ? at(top) : at(top) << zeros | at(top - 1) >> (64 - zeros);
  bool more = zeros != 0 && (at(top - 1) << zeros) != 0;
  for (int word = top - (zeros == 0 ? 1 : 2); word >= 0; --word) more = more || at(word) != 0;
  uint64_t significand = leading >> 11;
  const uint64_t below = leading & 0x7FF;
  if (below > 0x400 || (below == 0x400 && (more || (significand & 1) != 0))) ++significand;
  const double result = std::ldexp(static_cast<double>(significand), kUnit + 64 * top - zeros + 11);
  return negative ? -result : result;
}

}  // namespace samestep
#endif  // HWY_ONCE
