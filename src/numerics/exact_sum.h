// exact_sum.h: the exact sum of binary32 values, or of their exact squares, in any order and grouping.
//
//   ExactSum loss;                          // one for each task, then merged: the same result
//   loss.Add(token_losses);
//   loss.Merge(other);
//   double mean = loss.Round() / count;     // one rounding to binary64, ties to even
//
//   ExactSum norm;
//   norm.AddSquares(gradient);
//   double l2 = std::sqrt(norm.Round());
//
// Determinism: no rounding happens before Round, so order, threads and layout cannot matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace samestep {

class ExactSum {
 public:
  void Add(float value) { AddOne(value, false); }
  void Add(std::span<const float> values) { AddAll(values, false); }
  void AddSquares(std::span<const float> values) { AddAll(values, true); }
  void Merge(const ExactSum& other);

  // The binary64 nearest to the exact sum; +0 for a sum of 0. With an infinity or NaN among the terms, or
  // infinities of both signs: what IEEE addition would give.
  double Round() const;
  bool IsFinite() const { return !positive_infinity_ && !negative_infinity_ && !nan_; }

  // The sum as integers, for a tensor or a message: the same for the same value, however it came about. Zeros
  // are the sum without terms.
  static constexpr int kStateWords = 11;
  std::array<int64_t, kStateWords> State() const {
    std::array<int64_t, kStateWords> state = {};
    if (IsFinite()) {
      for (size_t i = 0; i < kWords; ++i) state[i] = static_cast<int64_t>(words_[i]);
    }
    state[kWords] = (positive_infinity_ ? 1 : 0) | (negative_infinity_ ? 2 : 0) | (nan_ ? 4 : 0);
    return state;
  }
  static ExactSum FromState(std::span<const int64_t, kStateWords> state) {
    ExactSum sum;
    for (size_t i = 0; i < kWords; ++i) sum.words_[i] = static_cast<uint64_t>(state[i]);
    sum.positive_infinity_ = (state[kWords] & 1) != 0;
    sum.negative_infinity_ = (state[kWords] & 2) != 0;
    sum.nan_ = (state[kWords] & 4) != 0;
    return sum;
  }

  // The same exact value (and the same kinds of non-finite terms), however it came about.
  friend bool operator==(const ExactSum& a, const ExactSum& b) = default;

 private:
  // Words of a fixed-point number, least significant first, in two's complement. Its unit is 2^-298, the
  // square of the least subnormal; its range holds 2^63 squares of the largest binary32.
  static constexpr size_t kWords = 10;

  void AddAll(std::span<const float> values, bool square);
  void AddBlock(std::span<const float> values, bool square);
  void AddOne(float value, bool square);
  void AddDouble(double value);  // a multiple of the unit
  void AddInteger(uint64_t magnitude, int exponent, bool negative);

  std::array<uint64_t, kWords> words_ = {};
  bool positive_infinity_ = false;
  bool negative_infinity_ = false;
  bool nan_ = false;
};

}  // namespace samestep
