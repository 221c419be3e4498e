#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/finite_difference.h"

namespace samestep {
namespace {

constexpr int64_t kTokens = 5, kHeads = 2, kSize = 6;

// A table of angles; the kernel takes any.
struct Table {
  Tensor cos = Tensor::Empty({kTokens, kSize / 2}), sin = Tensor::Empty({kTokens, kSize / 2});
  Table() {
    for (int64_t i = 0; i < cos.elements(); ++i) {
      cos.f32()[i] = static_cast<float>(std::cos(0.7 * static_cast<double>(i)));
      sin.f32()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
    }
  }
};

// Complex numbers (x[i], x[i + size / 2]) times (cos, sin).
std::vector<double> Turned(const Table& table, const std::vector<double>& x) {
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto feature = static_cast<int64_t>(i) % kSize, half = kSize / 2;
    const int64_t at = static_cast<int64_t>(i) / (kHeads * kSize) % kTokens * half + feature % half;
    const double c = table.cos.f32()[at], s = table.sin.f32()[at];
    y[i] = feature < half ? x[i] * c - x[i + half] * s : x[i] * c + x[i - half] * s;
  }
  return y;
}

TEST(RopeTest, TurnsPairsByThePositionInTheSample) {
  const Table table;
  Tensor x = Tensor::Empty({3, kTokens, kHeads * kSize});
  for (int64_t i = 0; i < x.elements(); ++i) x.f32()[i] = static_cast<float>(i % 13) - 6.5f;
  const std::vector<double> expected = Turned(table, {x.f32(), x.f32() + x.elements()});
  RopeForward(x.view(), table.cos.view(), table.sin.view(), kSize);
  EXPECT_LT(GradientError(expected, x.f32()), 1e-6);
}

TEST(RopeTest, BackwardAgreesWithFiniteDifferences) {
  const Table table;
  Tensor diff = Tensor::Empty({1, kTokens, kHeads * kSize});
  std::vector<double> x;
  for (int64_t i = 0; i < diff.elements(); ++i) {
    diff.f32()[i] = static_cast<float>(i % 7) - 2.25f;
    x.push_back(static_cast<double>(i % 11) / 8);
  }
  const std::vector<double> cotangent(diff.f32(), diff.f32() + diff.elements());
  const std::vector<double> expected = FiniteDifference(
      [&](const std::vector<double>& at) {
        const std::vector<double> y = Turned(table, at);
        double sum = 0;
        for (size_t i = 0; i < y.size(); ++i) sum += cotangent[i] * y[i];
        return sum;
      },
      x);
  RopeBackward(diff.view(), table.cos.view(), table.sin.view(), kSize);
  EXPECT_LT(GradientError(expected, diff.f32()), 1e-6);
}

}  // namespace
}  // namespace samestep
