#include "kernels/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/finite_difference.h"
#include "kernels/test_tensor.h"

namespace samestep {
namespace {

constexpr int64_t kRows = 6, kFeatures = 37;
constexpr float kEps = 1e-5f;

// The sum of cotangent * norm(x) * gain in binary64.
double Loss(const std::vector<double>& x, const std::vector<double>& gain,
            const std::vector<double>& cotangent) {
  double loss = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < kFeatures; ++i) squares += x[row * kFeatures + i] * x[row * kFeatures + i];
    const double r = 1 / std::sqrt(squares / kFeatures + double{kEps});
    for (int64_t i = 0; i < kFeatures; ++i) {
      loss += cotangent[row * kFeatures + i] * x[row * kFeatures + i] * r * gain[i];
    }
  }
  return loss;
}

class RmsNorm : public testing::Test {
 protected:
  RmsNorm() { RmsNormForward(x_.view(), gain_.view(), y_.view(), rstd_.view(), kEps); }

  Tensor x_ = Normals({2, 3, kFeatures}, 1), gain_ = Normals({kFeatures}, 2);
  Tensor dy_ = Normals({2, 3, kFeatures}, 3);
  Tensor y_ = Tensor::Empty(x_.shape()), rstd_ = Tensor::Empty({kRows}), dx_ = Tensor::Empty(x_.shape());
};

TEST_F(RmsNorm, ForwardIsNearTheExactValue) {
  double sum = 0;
  for (int64_t i = 0; i < y_.elements(); ++i) sum += double{dy_.f32()[i]} * double{y_.f32()[i]};
  EXPECT_NEAR(sum, Loss(Doubles(x_), Doubles(gain_), Doubles(dy_)), 1e-5);
}

TEST_F(RmsNorm, GradientOfInput) {
  RmsNormBackward(x_.view(), gain_.view(), rstd_.view(), dy_.view(), {}, dx_.view());
  const auto loss = [&](const std::vector<double>& x) { return Loss(x, Doubles(gain_), Doubles(dy_)); };
  EXPECT_LT(GradientError(FiniteDifference(loss, Doubles(x_)), dx_.f32()), 1e-6);
}

TEST_F(RmsNorm, GradientOfGain) {
  Tensor gradient = Tensor::Empty({1, kFeatures});
  RmsNormBackwardGain(x_.view(), rstd_.view(), dy_.view(), gradient.view(), {.tokens = 3});
  const auto loss = [&](const std::vector<double>& gain) { return Loss(Doubles(x_), gain, Doubles(dy_)); };
  EXPECT_LT(GradientError(FiniteDifference(loss, Doubles(gain_)), gradient.f32()), 1e-6);
}

TEST_F(RmsNorm, SkipIsAddedInPlaceOrElsewhereWithTheSameBits) {
  Tensor skip = Normals(x_.shape(), 4), in_place = Normals(x_.shape(), 4);
  RmsNormBackward(x_.view(), gain_.view(), rstd_.view(), dy_.view(), skip.view(), dx_.view());
  RmsNormBackward(x_.view(), gain_.view(), rstd_.view(), dy_.view(), in_place.view(), in_place.view());
  EXPECT_TRUE(SameBits(dx_.view(), in_place.view()));
  Tensor alone = Tensor::Empty(x_.shape());
  RmsNormBackward(x_.view(), gain_.view(), rstd_.view(), dy_.view(), {}, alone.view());
  for (int64_t i = 0; i < dx_.elements(); ++i) {
    EXPECT_EQ(dx_.f32()[i], skip.f32()[i] + alone.f32()[i]);
  }
}

// Samples of 300 tokens: blocks of 256 and 44, whatever the micro-batch is.
TEST(RmsNormGain, MicroBatchesReachNoBit) {
  Tensor x = Normals({4, 300, 20}, 1), rstd = Normals({4, 300}, 2), dy = Normals({4, 300, 20}, 3);
  TokenSum order{.tokens = 300, .token_lanes = 2};
  Tensor whole = Tensor::Empty({2, 20}), parts = Tensor::Empty({2, 20});
  RmsNormBackwardGain(x.view(), rstd.view(), dy.view(), whole.view(), order);
  for (int64_t sample = 0; sample < 4; ++sample) {
    RmsNormBackwardGain(x.view().Slice(sample, 1), rstd.view().Slice(sample, 1), dy.view().Slice(sample, 1),
                        parts.view(), order);
    order.lanes_set = LanesSetAfter(order, 300);
  }
  EXPECT_TRUE(SameBits(whole.view(), parts.view()));
}

}  // namespace
}  // namespace samestep
