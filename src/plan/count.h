// count.h: a number of bytes or operations that stops at the largest there is instead of wrapping.
//
//   Count bytes = Count(rows) * columns * 4 + 64;
//   bytes.value()                       // exact, or Count::kMost: more than eight exbibytes
//
// A recipe may ask for more than any machine has; the answer must still be "too much".
//
// Determinism: integers.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace samestep {

class Count {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Count() = default;
  Count(int64_t value) : value_(value) {}  // NOLINT: numbers are counts
  int64_t value() const { return value_; }
  double real() const { return static_cast<double>(value_); }

  // Both not negative.
  friend Count operator+(Count a, Count b) {
    int64_t sum;
    return __builtin_add_overflow(a.value_, b.value_, &sum) ? kMost : sum;
  }
  friend Count operator*(Count a, Count b) {
    int64_t product;
    return __builtin_mul_overflow(a.value_, b.value_, &product) ? kMost : product;
  }
  Count& operator+=(Count b) { return *this = *this + b; }
  friend auto operator<=>(const Count&, const Count&) = default;

 private:
  int64_t value_ = 0;
};

}  // namespace samestep
