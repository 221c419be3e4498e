#include "kernels/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/finite_difference.h"
#include "kernels/test_tensor.h"

namespace samestep {
namespace {

constexpr int64_t kRows = 5, kVocabulary = 37;
constexpr float kWeight = 0.25f;

double LossOfRow(const double* z, int32_t target) {
  double sum = 0;
  for (int64_t i = 0; i < kVocabulary; ++i) sum += std::exp(z[i]);
  return std::log(sum) - z[target];
}

class CrossEntropyTest : public testing::Test {
 protected:
  CrossEntropyTest() {
    for (int64_t row = 0; row < kRows; ++row) {
      targets_.i32()[row] = row == 2 ? -1 : static_cast<int32_t>(row * 9);
    }
  }
  void Run(const TensorView& logits, const CrossEntropyOptions& options) {
    CrossEntropy(logits, targets_.view(), loss_.view(), row_max_.view(), row_sum_.view(), options);
  }

  Tensor logits_ = Normals({kRows, kVocabulary}, 1, 3), targets_ = Tensor::Empty({kRows}, DType::kI32);
  Tensor loss_ = Tensor::Empty({kRows}), row_max_ = Tensor::Empty({kRows}), row_sum_ = Tensor::Empty({kRows});
};

TEST_F(CrossEntropyTest, LossIsNearTheExactValue) {
  const std::vector<double> z = Doubles(logits_);
  Run(logits_.view(), {.vocab_lane_size = 40, .want_gradient = false});
  for (int64_t row = 0; row < kRows; ++row) {
    const int32_t target = targets_.i32()[row];
    const double expected = target < 0 ? 0 : LossOfRow(z.data() + row * kVocabulary, target);
    EXPECT_NEAR(loss_.f32()[row], expected, 1e-5);
  }
  EXPECT_EQ(Doubles(logits_), z) << "only read when no gradient is wanted";
}

TEST_F(CrossEntropyTest, Gradient) {
  const auto loss = [&](const std::vector<double>& z) {
    double sum = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const int32_t target = targets_.i32()[row];
      if (target >= 0) sum += double{kWeight} * LossOfRow(z.data() + row * kVocabulary, target);
    }
    return sum;
  };
  const std::vector<double> expected = FiniteDifference(loss, Doubles(logits_));
  Run(logits_.view(), {.vocab_lane_size = 40, .weight = kWeight});
  EXPECT_LT(GradientError(expected, logits_.f32()), 2e-6);
}

TEST_F(CrossEntropyTest, MaskedTargetHasNoLossAndNoGradient) {
  Run(logits_.view(), {.vocab_lane_size = 37, .weight = kWeight});
  EXPECT_EQ(loss_.f32()[2], 0);
  for (int64_t i = 0; i < kVocabulary; ++i) {
    EXPECT_EQ(logits_.f32()[2 * kVocabulary + i], 0);
    EXPECT_FALSE(std::signbit(logits_.f32()[2 * kVocabulary + i]));
  }
}

// The loss keeps its accuracy where the target has nearly all the probability: m + log l would cancel.
TEST_F(CrossEntropyTest, SmallLossUnderALargeMaximum) {
  Tensor z = Tensor::Zeros({1, 2}), target = Tensor::Zeros({1}, DType::kI32);
  z.f32()[0] = 1000, z.f32()[1] = 990;
  Tensor loss = Tensor::Empty({1}), m = Tensor::Empty({1}), l = Tensor::Empty({1});
  CrossEntropy(z.view(), target.view(), loss.view(), m.view(), l.view(),
               {.vocab_lane_size = 2, .want_gradient = false});
  EXPECT_NEAR(loss.f32()[0], 4.5398e-5, 1e-7);
}

// The written order: lanes have row sums of their own, so that widths are part of the bits.
TEST_F(CrossEntropyTest, LanesHaveTheirOwnRowSums) {
  Tensor copy = Normals({kRows, kVocabulary}, 1, 3);
  Run(copy.view(), {.vocab_lane_size = 40, .want_gradient = false});
  const std::vector<double> one = Doubles(row_sum_);
  Run(copy.view(), {.vocab_lane_size = 20, .tensor_lanes = 2, .want_gradient = false});
  const std::vector<double> two = Doubles(row_sum_);
  EXPECT_NE(one, two);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-5);
}

using CrossEntropyDeathTest = CrossEntropyTest;  // runs before threads are started

TEST_F(CrossEntropyDeathTest, TargetOutsideTheVocabularyStops) {
  targets_.i32()[0] = kVocabulary;
  EXPECT_DEATH(Run(logits_.view(), {.vocab_lane_size = 40}), "target");
}

}  // namespace
}  // namespace samestep
