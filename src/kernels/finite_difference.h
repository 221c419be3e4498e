// finite_difference.h: gradients of a function written in binary64, for tests of backward kernels.
//
//   // loss(x) = sum of cotangent * f(x), f being the layer written plainly in double
//   std::vector<double> expected = FiniteDifference(loss, x);
//   EXPECT_LT(GradientError(expected, diff_src.f32()), 1e-5);
//
// Determinism: plain loops; used by tests only.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

namespace samestep {

using ScalarFunction = std::function<double(const std::vector<double>&)>;

// The gradient of `loss` at `x` by central differences of fourth order; about twelve digits hold where the
// function is smooth and of size one.
inline std::vector<double> FiniteDifference(const ScalarFunction& loss, std::vector<double> x,
                                            double step = 1e-3) {
  std::vector<double> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    const auto value = [&](double offset) {
      x[i] = at + offset;
      return loss(x);
    };
    gradient[i] = (8 * (value(step) - value(-step)) - (value(2 * step) - value(-2 * step))) / (12 * step);
    x[i] = at;
  }
  return gradient;
}

// The largest difference between a kernel's gradient and the expected one, relative to the expected
// gradient's root mean square (single elements may be near zero). Not a number counts as infinite.
template <typename T>
double GradientError(const std::vector<double>& expected, const T* gradient) {
  double squares = 0, largest = 0;
  for (const double e : expected) squares += e * e;
  const double norm = std::sqrt(squares / static_cast<double>(expected.size())) + 1e-300;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(static_cast<double>(gradient[i]) - expected[i]) / norm;
    if (!(error <= largest)) largest = std::isnan(error) ? HUGE_VAL : error;
  }
  return largest;
}

}  // namespace samestep
