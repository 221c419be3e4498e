// decimal.h: the exact real value of a recipe's decimal, and functions of such values rounded once.
//
//   SAMESTEP_ASSIGN_OR_RETURN(Decimal beta, Decimal::Parse("0.95"));
//   float b = beta.ToFloat();                           // the binary32 nearest to 0.95
//   float c = InverseOneMinusPower(beta, step);         // the binary32 nearest to 1 / (1 - 0.95^step)
//   float lr = CosineBetween(max, min, step - warmup, steps - warmup);
//
// Determinism: results are correctly rounded, so the library that computes them (MPFR) cannot show.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace samestep {

class Decimal {
 public:
  Decimal() = default;  // 0
  // An optional sign, digits with an optional point (and underscores between digits, as in TOML), an optional
  // exponent: "0.001", "1e-8", "-2", "3E-4", "10_000". At most 60 significant digits; kUsage for a magnitude
  // that is not 0 and outside 1e-100 to 1e100.
  static Result<Decimal> Parse(std::string_view text);
  static Decimal Of(int64_t value);

  // Rounded once, ties to even.
  float ToFloat() const;
  double ToDouble() const;
  // Canonical: the same for equal values: "0", "-25e-1", "1e-8".
  std::string ToString() const;

  bool IsZero() const { return digits_.empty(); }
  bool IsNegative() const { return negative_; }
  friend bool operator==(const Decimal&, const Decimal&) = default;
  friend std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);

 private:
  bool negative_ = false;
  std::string digits_;  // without leading or trailing zeros; empty for 0
  int exponent_ = 0;    // the value is digits * 10^exponent
};

// 1 - x
float OneMinus(const Decimal& x);
// 1 / (1 - b^t) for 0 <= b < 1 and t >= 1
float InverseOneMinusPower(const Decimal& b, int64_t t);
// from + (to - from) * numerator / denominator, denominator >= 1: warm-up (from 0) and decay
float LinearBetween(const Decimal& from, const Decimal& to, int64_t numerator, int64_t denominator);
// to + (from - to) * (1 + cos(pi * numerator / denominator)) / 2: `from` at 0, `to` at the denominator
float CosineBetween(const Decimal& from, const Decimal& to, int64_t numerator, int64_t denominator);

// RoPE: cos and sin of position * base^(-2i/head_size). base >= 1, 0 <= i < head_size / 2,
// 0 <= position < 2^31.
struct CosSin {
  float cos, sin;
};
CosSin RopeCosSin(int64_t position, int64_t i, int64_t head_size, const Decimal& base);
// The whole table: element [p][i] of `cos` and `sin`, head_size / 2 columns, belongs to position
// first_position + p. Fast: binary64 pairs decide nearly all, MPFR the rest.
void RopeTable(int64_t first_position, int64_t positions, int64_t head_size, const Decimal& base, float* cos,
               float* sin);

}  // namespace samestep
