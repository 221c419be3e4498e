// fixed_point.h: an exact sum of few large terms, as the words of ExactSum's state.
//
//   FixedPoint total;
//   total.Add(units, exponent);          // units * 2^exponent
//   sum.Merge(total.ToExactSum());
//
// Determinism: integers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "numerics/exact_sum.h"

namespace samestep {

inline constexpr int64_t kChunk = 1024;    // values that are added before their sum enters the words
inline constexpr int64_t kChunkStep = 32;  // counts are multiples of it: two vectors of any target

class FixedPoint {
 public:
  // exponent >= -298, and the term within the range of ExactSum.
  void Add(int64_t units, int exponent) {
    const auto shift = static_cast<size_t>(exponent + kUnit);
    const __int128 term = static_cast<__int128>(units) << (shift % 64);
    const auto sign = static_cast<uint64_t>(units >> 63);
    unsigned __int128 carry = 0;
    for (size_t i = shift / 64, part = 0; i < words_.size(); ++i, ++part) {
      const uint64_t word = part == 0   ? static_cast<uint64_t>(term)
                            : part == 1 ? static_cast<uint64_t>(static_cast<unsigned __int128>(term) >> 64)
                                        : sign;
      carry += static_cast<unsigned __int128>(words_[i]) + word;
      words_[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
  }

  ExactSum ToExactSum() const {
    std::array<int64_t, ExactSum::kStateWords> state = {};
    std::ranges::copy(words_, state.begin());
    return ExactSum::FromState(state);
  }

 private:
  static constexpr int kUnit = 298;                             // the lowest word's unit is 2^-298
  std::array<uint64_t, ExactSum::kStateWords - 1> words_ = {};  // two's complement
};

}  // namespace samestep
