// exact_sum-inl.h: exact sums of chunks of binary32 values, or of their squares, in vectors of binary64.
//
// A value, and its square, is a binary64 number without error. Let all terms t of a chunk be multiples of u
// and less than 2^b. With q = 2^(b-40) and M = 1.5 * 2^52 * q, s = (t + M) - M is t rounded to a multiple of
// q, and t - s, at most q/2, is exact. The sum of 1,024 such s is exact, since each is at most 2^40 q; then t
// - s is split in the same way, until what is left is less than 2^43 u, of which 1,024 can be added exactly
// as they are. Nothing is rounded, so vectors of any width give one result.
//
// Determinism: exact.
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_EXACT_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_EXACT_SUM_INL_H_
#undef SAMESTEP_KERNELS_EXACT_SUM_INL_H_
#else
#define SAMESTEP_KERNELS_EXACT_SUM_INL_H_
#endif

#include <bit>
#include <cstring>

#include "kernels/exact_sum/exact_sum.h"
#include "kernels/exact_sum/fixed_point.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLevelBits = 40;  // of a split
constexpr int kRestBits = 43;   // of what is added without a split

// 2^exponent, a normal binary64.
inline double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// Adds vectors whose lanes are multiples of 2^exponent, and less than 2^53 of them.
template <class V>
HWY_INLINE void AddLanes(V sum, int exponent, FixedPoint* total) {
  const hn::ScalableTag<double> d;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<double>());
  HWY_ALIGN double lanes[kLanes];
  hn::Store(sum, d, lanes);
  const double scale = PowerOfTwo(-exponent);
  int64_t units = 0;
  for (size_t i = 0; i < kLanes; ++i) units += static_cast<int64_t>(lanes[i] * scale);
  total->Add(units, exponent);
}

// Terms are less than 2^high_bit and multiples of 2^low_bit, which `kSplits` splits reach. count is a
// multiple of kChunkStep.
template <bool kSquares, int kSplits>
HWY_INLINE void AddTerms(const float* x, int64_t count, int high_bit, int low_bit, FixedPoint* total) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  V anchors[kSplits + 1], sums[2][kSplits + 1];
#pragma GCC unroll 8
  for (int k = 0; k <= kSplits; ++k) {
    anchors[k] = hn::Set(d, PowerOfTwo(high_bit - kLevelBits * (k + 1) + 52) * 1.5);
    sums[0][k] = sums[1][k] = hn::Zero(d);
  }
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      V term = hn::PromoteTo(d, hn::LoadU(narrow, x + i + half * kLanes));
      if (kSquares) term = hn::Mul(term, term);
#pragma GCC unroll 8
      for (int k = 0; k < kSplits; ++k) {
        const V part = hn::Sub(hn::Add(term, anchors[k]), anchors[k]);
        sums[half][k] = hn::Add(sums[half][k], part);
        term = hn::Sub(term, part);
      }
      sums[half][kSplits] = hn::Add(sums[half][kSplits], term);
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k <= kSplits; ++k) {
    const int exponent = k < kSplits ? high_bit - kLevelBits * (k + 1) : low_bit;
    AddLanes(hn::Add(sums[0][k], sums[1][k]), exponent, total);
  }
}

// The least and greatest exponent field of the values that are not zero; subnormals count as 1.
struct Exponents {
  int least, greatest;  // least > greatest: all are zero
};

HWY_INLINE Exponents ExponentsOf(const float* x, int64_t count) {
  const hn::ScalableTag<uint32_t> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  const auto magnitude_mask = hn::Set(d, 0x7FFFFFFFu), one = hn::Set(d, 1u);
  // Less one, so that zeros are the greatest of all.
  auto least = hn::Set(d, ~0u), greatest = hn::Zero(d);
  for (int64_t i = 0; i < count; i += kLanes) {
    const auto magnitude = hn::And(hn::LoadU(d, reinterpret_cast<const uint32_t*>(x) + i), magnitude_mask);
    least = hn::Min(least, hn::Sub(magnitude, one));
    greatest = hn::Max(greatest, magnitude);
  }
  HWY_ALIGN uint32_t lows[kLanes], highs[kLanes];
  hn::Store(least, d, lows);
  hn::Store(greatest, d, highs);
  const uint32_t low = *std::min_element(lows, lows + kLanes);
  const uint32_t high = *std::max_element(highs, highs + kLanes);
  if (high == 0) return {1, 0};
  return {std::max(1, static_cast<int>((low + 1) >> 23)), std::max(1, static_cast<int>(high >> 23))};
}

// Adds the terms of at most kChunk values; false, and nothing is added, if some are not finite or too far
// apart. count is a multiple of kChunkStep.
template <bool kSquares>
HWY_INLINE bool AddChunk(const float* x, int64_t count, FixedPoint* total) {
  const Exponents exponents = ExponentsOf(x, count);
  if (exponents.least > exponents.greatest) return true;
  if (exponents.greatest == 255) return false;
  constexpr int kPower = kSquares ? 2 : 1;
  const int high_bit = kPower * (exponents.greatest - 126), low_bit = kPower * (exponents.least - 150);
  const int splits = (high_bit - low_bit - kRestBits + kLevelBits - 1) / kLevelBits;
  switch (std::max(splits, 0)) {
    case 0:
      AddTerms<kSquares, 0>(x, count, high_bit, low_bit, total);
      return true;
    case 1:
      AddTerms<kSquares, 1>(x, count, high_bit, low_bit, total);
      return true;
    case 2:
      AddTerms<kSquares, 2>(x, count, high_bit, low_bit, total);
      return true;
    case 3:
      AddTerms<kSquares, 3>(x, count, high_bit, low_bit, total);
      return true;
    default:
      return false;
  }
}

// Adds to `sum` by chunks; what a chunk cannot take goes through the general way.
template <bool kSquares>
HWY_INLINE void AddSpan(const float* x, int64_t count, ExactSum* sum) {
  FixedPoint total;
  HWY_ALIGN float padded[kChunk];
  for (int64_t i = 0; i < count; i += kChunk) {
    const int64_t n = std::min(kChunk, count - i);
    const float* chunk = x + i;
    const int64_t whole = (n + kChunkStep - 1) / kChunkStep * kChunkStep;
    if (whole != n) {
      std::memset(padded, 0, sizeof(padded));
      std::memcpy(padded, chunk, static_cast<size_t>(n) * sizeof(float));
      chunk = padded;
    }
    if (AddChunk<kSquares>(chunk, whole, &total)) continue;
    const std::span<const float> values(x + i, static_cast<size_t>(n));
    if (kSquares) {
      sum->AddSquares(values);
    } else {
      sum->Add(values);
    }
  }
  sum->Merge(total.ToExactSum());
}

void AddSpanOfValues(const float* x, int64_t count, ExactSum* sum) { AddSpan<false>(x, count, sum); }
void AddSpanOfSquares(const float* x, int64_t count, ExactSum* sum) { AddSpan<true>(x, count, sum); }

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
