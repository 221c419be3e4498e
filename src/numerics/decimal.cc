#include "numerics/decimal.h"

#include <fmt/format.h>
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"

namespace samestep {
namespace {

constexpr size_t kMostDigits = 60;
constexpr int kMostMagnitude = 100;  // powers of ten
constexpr mpfr_prec_t kFirstPrecision = 128, kLastPrecision = 16384;

class Real {
 public:
  explicit Real(mpfr_prec_t precision) { mpfr_init2(value_, precision); }
  Real(const Real& other) {
    mpfr_init2(value_, mpfr_get_prec(other.value_));
    mpfr_set(value_, other.value_, MPFR_RNDN);  // exact
  }
  Real& operator=(const Real&) = delete;
  ~Real() { mpfr_clear(value_); }
  operator mpfr_ptr() { return value_; }
  operator mpfr_srcptr() const { return value_; }

 private:
  mpfr_t value_;
};

// A real number between two that MPFR holds: low is rounded down in each operation, high is rounded up.
struct Interval {
  explicit Interval(mpfr_prec_t precision) : low(precision), high(precision) {}
  Interval(const Decimal& x, mpfr_prec_t precision) : Interval(precision) {
    const std::string text = x.ToString();
    mpfr_strtofr(low, text.c_str(), nullptr, 10, MPFR_RNDD);
    mpfr_strtofr(high, text.c_str(), nullptr, 10, MPFR_RNDU);
  }
  Real low, high;
};

mpfr_prec_t PrecisionOf(const Interval& x) { return mpfr_get_prec(static_cast<mpfr_srcptr>(x.low)); }

Interval operator-(const Interval& a, const Interval& b) {
  Interval result(PrecisionOf(a));
  mpfr_sub(result.low, a.low, b.high, MPFR_RNDD);
  mpfr_sub(result.high, a.high, b.low, MPFR_RNDU);
  return result;
}

Interval operator+(const Interval& a, const Interval& b) {
  Interval result(PrecisionOf(a));
  mpfr_add(result.low, a.low, b.low, MPFR_RNDD);
  mpfr_add(result.high, a.high, b.high, MPFR_RNDU);
  return result;
}

// Times a weight >= 0.
Interval Weighted(const Interval& x, const Interval& weight) {
  Interval result(PrecisionOf(x));
  mpfr_mul(result.low, x.low, mpfr_sgn(static_cast<mpfr_srcptr>(x.low)) < 0 ? weight.high : weight.low,
           MPFR_RNDD);
  mpfr_mul(result.high, x.high, mpfr_sgn(static_cast<mpfr_srcptr>(x.high)) < 0 ? weight.low : weight.high,
           MPFR_RNDU);
  return result;
}

// Times numerator / denominator, both >= 0 and exact.
Interval Times(const Interval& x, int64_t numerator, int64_t denominator) {
  Interval ratio(PrecisionOf(x));
  mpfr_set_si(ratio.low, numerator, MPFR_RNDN);
  mpfr_set(ratio.high, ratio.low, MPFR_RNDN);
  Interval result = Weighted(x, ratio);
  mpfr_div_si(result.low, result.low, denominator, MPFR_RNDD);
  mpfr_div_si(result.high, result.high, denominator, MPFR_RNDU);
  return result;
}

Interval One(mpfr_prec_t precision) {
  Interval one(precision);
  mpfr_set_ui(one.low, 1, MPFR_RNDN);
  mpfr_set_ui(one.high, 1, MPFR_RNDN);
  return one;
}

float Nearest(const Real& x, float) { return mpfr_get_flt(x, MPFR_RNDN); }
double Nearest(const Real& x, double) { return mpfr_get_d(x, MPFR_RNDN); }

bool HasEvenSignificand(float x) { return (std::bit_cast<uint32_t>(x) & 1) == 0; }
bool HasEvenSignificand(double x) { return (std::bit_cast<uint64_t>(x) & 1) == 0; }

// The T nearest to the value that evaluate(precision) encloses: with more and more precision until both ends
// round alike. If they never do, the value is the middle of two neighbours: a value that is not, here a
// rational number with less than a thousand digits, would have been told apart.
template <typename T, typename Evaluate>
T RoundedOnce(Evaluate evaluate) {
  T low = 0, high = 0;
  for (mpfr_prec_t precision = kFirstPrecision; precision <= kLastPrecision; precision *= 2) {
    const Interval value = evaluate(precision);
    low = Nearest(value.low, T());
    high = Nearest(value.high, T());
    if (low == high) return high + T(0);  // never -0
  }
  return HasEvenSignificand(low) ? low : high;
}

}  // namespace

Result<Decimal> Decimal::Parse(std::string_view text) {
  const Status invalid =
      UsageError("'{}' is not a decimal number such as 0.001, 3e-4 or 10_000", text.substr(0, 80));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t at = 0;
  Decimal result;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) result.negative_ = text[at++] == '-';
  // Digits with underscores between them; false if there are none.
  const auto read_digits = [&](std::string& digits) {
    const size_t first = at;
    while (at < text.size()) {
      const bool separates = text[at] == '_' && at > first && text[at - 1] != '_' && at + 1 < text.size() &&
                             is_digit(text[at + 1]);
      if (!is_digit(text[at]) && !separates) break;
      if (is_digit(text[at])) digits += text[at];
      ++at;
    }
    return at > first;
  };
  if (!read_digits(result.digits_)) return invalid;
  int64_t exponent = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    const size_t before = result.digits_.size();
    if (!read_digits(result.digits_)) return invalid;
    exponent = -static_cast<int64_t>(result.digits_.size() - before);
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    bool negative = false;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) negative = text[at++] == '-';
    std::string digits;
    if (!read_digits(digits)) return invalid;
    int64_t written = 0;
    for (char c : digits) written = std::min<int64_t>(written * 10 + (c - '0'), 1'000'000'000);
    exponent += negative ? -written : written;
  }
  if (at != text.size()) return invalid;

  const size_t zeros = std::min(result.digits_.find_first_not_of('0'), result.digits_.size());
  result.digits_.erase(0, zeros);
  while (!result.digits_.empty() && result.digits_.back() == '0') {
    result.digits_.pop_back();
    ++exponent;
  }
  if (result.digits_.empty()) return Decimal();
  if (result.digits_.size() > kMostDigits) {
    return UsageError("'{}...' has {} significant digits; at most {} are read", text.substr(0, 20),
                      result.digits_.size(), kMostDigits);
  }
  const int64_t magnitude = exponent + static_cast<int64_t>(result.digits_.size());
  if (magnitude > kMostMagnitude || magnitude <= -kMostMagnitude) {
    return UsageError("'{}' is outside 1e-{} to 1e{}", text.substr(0, 80), kMostMagnitude, kMostMagnitude);
  }
  result.exponent_ = static_cast<int>(exponent);
  return result;
}

Decimal Decimal::Of(int64_t value) { return Parse(fmt::format("{}", value)).value(); }

std::string Decimal::ToString() const {
  if (IsZero()) return "0";
  std::string text = (negative_ ? "-" : "") + digits_;
  if (exponent_ != 0) text += fmt::format("e{}", exponent_);
  return text;
}

float Decimal::ToFloat() const {
  return RoundedOnce<float>([&](mpfr_prec_t precision) { return Interval(*this, precision); });
}

double Decimal::ToDouble() const {
  return RoundedOnce<double>([&](mpfr_prec_t precision) { return Interval(*this, precision); });
}

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  const auto sign = [](const Decimal& x) { return x.IsZero() ? 0 : x.negative_ ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) <=> sign(b);
  const auto magnitude = [](const Decimal& x) { return x.exponent_ + static_cast<int>(x.digits_.size()); };
  std::strong_ordering order = magnitude(a) <=> magnitude(b);
  // Digits after the point: the shorter one is padded with zeros, and ends in none.
  if (order == 0) order = a.digits_ <=> b.digits_;
  return sign(a) < 0 ? 0 <=> order : order;
}

float OneMinus(const Decimal& x) {
  return RoundedOnce<float>([&](mpfr_prec_t precision) { return One(precision) - Interval(x, precision); });
}

float InverseOneMinusPower(const Decimal& b, int64_t t) {
  SAMESTEP_CHECK(!b.IsNegative() && b < Decimal::Of(1));
  SAMESTEP_CHECK(t >= 1);
  return RoundedOnce<float>([&](mpfr_prec_t precision) {
    Interval power(b, precision);
    mpfr_pow_ui(power.low, power.low, static_cast<unsigned long>(t), MPFR_RNDD);
    mpfr_pow_ui(power.high, power.high, static_cast<unsigned long>(t), MPFR_RNDU);
    const Interval rest = One(precision) - power;
    Interval result(precision);
    mpfr_ui_div(result.low, 1, rest.high, MPFR_RNDD);
    // Where the precision does not tell b^t from 1: no upper bound yet.
    if (mpfr_sgn(static_cast<mpfr_srcptr>(rest.low)) > 0) {
      mpfr_ui_div(result.high, 1, rest.low, MPFR_RNDU);
    } else {
      mpfr_set_inf(result.high, 1);
    }
    return result;
  });
}

float LinearBetween(const Decimal& from, const Decimal& to, int64_t numerator, int64_t denominator) {
  SAMESTEP_CHECK(0 <= numerator && numerator <= denominator && denominator >= 1);
  return RoundedOnce<float>([&](mpfr_prec_t precision) {
    const Interval start(from, precision);
    return start + Times(Interval(to, precision) - start, numerator, denominator);
  });
}

float CosineBetween(const Decimal& from, const Decimal& to, int64_t numerator, int64_t denominator) {
  SAMESTEP_CHECK(0 <= numerator && numerator <= denominator && denominator >= 1);
  if (numerator == 0) return from.ToFloat();
  if (numerator == denominator) return to.ToFloat();
  return RoundedOnce<float>([&](mpfr_prec_t precision) {
    Interval pi(precision);
    mpfr_const_pi(pi.low, MPFR_RNDD);
    mpfr_const_pi(pi.high, MPFR_RNDU);
    const Interval angle = Times(pi, numerator, denominator);  // within 0 to pi, where cos descends
    Interval cosine(precision);
    mpfr_cos(cosine.low, angle.high, MPFR_RNDD);
    mpfr_cos(cosine.high, angle.low, MPFR_RNDU);
    const Interval weight = Times(One(precision) + cosine, 1, 2);
    const Interval end(to, precision);
    return end + Weighted(Interval(from, precision) - end, weight);
  });
}

namespace {

// base^(-2i/head_size)
Interval RopeFrequency(int64_t i, int64_t head_size, const Decimal& base, mpfr_prec_t precision) {
  Interval logarithm(base, precision);
  mpfr_log(logarithm.low, logarithm.low, MPFR_RNDD);
  mpfr_log(logarithm.high, logarithm.high, MPFR_RNDU);
  const Interval power = Times(logarithm, 2 * i, head_size);
  Interval frequency(precision);
  mpfr_neg(frequency.low, power.high, MPFR_RNDD);
  mpfr_neg(frequency.high, power.low, MPFR_RNDU);
  mpfr_exp(frequency.low, frequency.low, MPFR_RNDD);
  mpfr_exp(frequency.high, frequency.high, MPFR_RNDU);
  return frequency;
}

// `function` is cos or sin, which change by no more than the angle does.
float RoundedOfAngle(int (*function)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t), int64_t position, int64_t i,
                     int64_t head_size, const Decimal& base) {
  return RoundedOnce<float>([&](mpfr_prec_t precision) {
    const Interval angle = Times(RopeFrequency(i, head_size, base, precision), position, 1);
    Real width(precision);
    mpfr_sub(width, angle.high, angle.low, MPFR_RNDU);
    Interval result(precision);
    function(result.low, angle.low, MPFR_RNDD);
    function(result.high, angle.low, MPFR_RNDU);
    mpfr_sub(result.low, result.low, width, MPFR_RNDD);
    mpfr_add(result.high, result.high, width, MPFR_RNDU);
    return result;
  });
}

void CheckRope(int64_t last_position, int64_t head_size, const Decimal& base) {
  SAMESTEP_CHECK(base >= Decimal::Of(1));
  SAMESTEP_CHECK(head_size >= 2);
  SAMESTEP_CHECK(last_position < int64_t{1} << 31);
}

// A frequency as the sum of two binary64 numbers; error below 2^-105 of it.
struct Frequency {
  double high, low;
};

// cos and sin of position * frequency in binary64, each within 2^-48 of itself + 2^-68 of the exact value.
//
// The angle is reduced by k quarter turns: the product with `high` is split exactly, its difference from
// k * kQuarterHigh is exact (they are within a factor of 2), and what is left out is below 2^31 * 2^-106. The
// polynomials are Taylor's; their first term left out is below 2^-62.
struct CosSinPair {
  double cos, sin;
};
CosSinPair ApproximateCosSin(int64_t position, Frequency frequency) {
  constexpr double kQuarterHigh = 0x1.921fb54442d18p0, kQuarterLow = 0x1.1a62633145c07p-54;
  const double p = static_cast<double>(position);
  const double angle = p * frequency.high;
  const double angle_rest = std::fma(p, frequency.high, -angle) + p * frequency.low;
  const double k = std::nearbyint(angle * 0x1.45f306dc9c883p-1);
  const double turned = k * kQuarterHigh;
  const double turned_rest = std::fma(k, kQuarterHigh, -turned) + k * kQuarterLow;
  const double difference = angle - turned;
  const double rest = angle_rest - turned_rest;
  const double r = difference + rest;
  const double r_rest = (difference - r) + rest;
  const double z = r * r;
  const double s =
      r * z *
      (-1.0 / 6 +
       z * (1.0 / 120 +
            z * (-1.0 / 5040 +
                 z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                          z * (1.0 / 6227020800.0 + z * (-1.0 / 1307674368000.0 +
                                                                         z * (1.0 / 355687428096000.0))))))));
  const double c =
      z * (-0.5 + z * (1.0 / 24 +
                       z * (-1.0 / 720 +
                            z * (1.0 / 40320 +
                                 z * (-1.0 / 3628800 + z * (1.0 / 479001600 +
                                                            z * (-1.0 / 87178291200.0 +
                                                                 z * (1.0 / 20922789888000.0 +
                                                                      z * (-1.0 / 6402373705728000.0)))))))));
  const double sine = r + (s + r_rest * (1 + c));
  const double cosine = 1 + (c - r_rest * r);
  switch (static_cast<int64_t>(k) & 3) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

// True, and the nearest binary32, if all that is within the error of x rounds to it.
bool RoundsSafely(double x, float& nearest) {
  const double error = std::fabs(x) * 0x1p-48 + 0x1p-68;
  nearest = static_cast<float>(x - error);
  return nearest == static_cast<float>(x + error);
}

}  // namespace

CosSin RopeCosSin(int64_t position, int64_t i, int64_t head_size, const Decimal& base) {
  CheckRope(position, head_size, base);
  SAMESTEP_CHECK(0 <= position && 0 <= i && i < head_size / 2);
  if (position == 0) return {1, 0};
  return {RoundedOfAngle(mpfr_cos, position, i, head_size, base),
          RoundedOfAngle(mpfr_sin, position, i, head_size, base)};
}

void RopeTable(int64_t first_position, int64_t positions, int64_t head_size, const Decimal& base, float* cos,
               float* sin) {
  CheckRope(first_position + positions - 1, head_size, base);
  SAMESTEP_CHECK(first_position >= 0 && positions >= 0);
  const int64_t columns = head_size / 2;
  std::vector<Frequency> frequencies;
  for (int64_t i = 0; i < columns; ++i) {
    const Interval exact = RopeFrequency(i, head_size, base, 256);
    Frequency frequency = {mpfr_get_d(exact.low, MPFR_RNDN), 0};
    Real rest(256);
    mpfr_sub_d(rest, exact.low, frequency.high, MPFR_RNDN);
    frequency.low = mpfr_get_d(rest, MPFR_RNDN);
    frequencies.push_back(frequency);
  }
  for (int64_t row = 0; row < positions; ++row) {
    const int64_t position = first_position + row;
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t element = row * columns + i;
      const CosSinPair pair = ApproximateCosSin(position, frequencies[static_cast<size_t>(i)]);
      if (position == 0 || !RoundsSafely(pair.cos, cos[element]) || !RoundsSafely(pair.sin, sin[element])) {
        const CosSin exact = RopeCosSin(position, i, head_size, base);
        cos[element] = exact.cos;
        sin[element] = exact.sin;
      }
    }
  }
}

}  // namespace samestep
