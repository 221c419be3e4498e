#include "kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/finite_difference.h"
#include "kernels/test_tensor.h"

namespace samestep {
namespace {

constexpr int64_t kRows = 6, kFeatures = 37;
constexpr float kEps = 1e-5f;

// The sum of cotangent * (norm(x) * gain + bias) in binary64.
double Loss(const std::vector<double>& x, const std::vector<double>& gain, const std::vector<double>& bias,
            const std::vector<double>& cotangent) {
  double loss = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < kFeatures; ++i) mean += x[row * kFeatures + i] / kFeatures;
    for (int64_t i = 0; i < kFeatures; ++i) squares += std::pow(x[row * kFeatures + i] - mean, 2);
    const double r = 1 / std::sqrt(squares / kFeatures + double{kEps});
    for (int64_t i = 0; i < kFeatures; ++i) {
      const double y = (x[row * kFeatures + i] - mean) * r * gain[i] + bias[i];
      loss += cotangent[row * kFeatures + i] * y;
    }
  }
  return loss;
}

class LayerNorm : public testing::Test {
 protected:
  LayerNorm() {
    LayerNormForward(x_.view(), gain_.view(), bias_.view(), y_.view(), mean_.view(), rstd_.view(), kEps);
  }

  Tensor x_ = Normals({2, 3, kFeatures}, 1), gain_ = Normals({kFeatures}, 2), bias_ = Normals({kFeatures}, 3);
  Tensor dy_ = Normals({2, 3, kFeatures}, 4);
  Tensor y_ = Tensor::Empty(x_.shape()), dx_ = Tensor::Empty(x_.shape());
  Tensor mean_ = Tensor::Empty({kRows}), rstd_ = Tensor::Empty({kRows});
};

TEST_F(LayerNorm, ForwardIsNearTheExactValue) {
  double sum = 0;
  for (int64_t i = 0; i < y_.elements(); ++i) sum += double{dy_.f32()[i]} * double{y_.f32()[i]};
  EXPECT_NEAR(sum, Loss(Doubles(x_), Doubles(gain_), Doubles(bias_), Doubles(dy_)), 1e-5);
}

TEST_F(LayerNorm, GradientOfInput) {
  LayerNormBackward(x_.view(), gain_.view(), mean_.view(), rstd_.view(), dy_.view(), {}, dx_.view());
  const auto loss = [&](const std::vector<double>& x) {
    return Loss(x, Doubles(gain_), Doubles(bias_), Doubles(dy_));
  };
  EXPECT_LT(GradientError(FiniteDifference(loss, Doubles(x_)), dx_.f32()), 1e-6);
}

TEST_F(LayerNorm, GradientsOfGainAndBias) {
  Tensor diff_gain = Tensor::Empty({1, kFeatures}), diff_bias = Tensor::Empty({1, kFeatures});
  LayerNormBackwardParameters(x_.view(), mean_.view(), rstd_.view(), dy_.view(), diff_gain.view(),
                              diff_bias.view(), {.tokens = 3});
  const auto of_gain = [&](const std::vector<double>& gain) {
    return Loss(Doubles(x_), gain, Doubles(bias_), Doubles(dy_));
  };
  const auto of_bias = [&](const std::vector<double>& bias) {
    return Loss(Doubles(x_), Doubles(gain_), bias, Doubles(dy_));
  };
  EXPECT_LT(GradientError(FiniteDifference(of_gain, Doubles(gain_)), diff_gain.f32()), 1e-6);
  EXPECT_LT(GradientError(FiniteDifference(of_bias, Doubles(bias_)), diff_bias.f32()), 1e-6);
}

TEST_F(LayerNorm, SkipIsAddedInPlaceOrElsewhereWithTheSameBits) {
  Tensor skip = Normals(x_.shape(), 5), in_place = Normals(x_.shape(), 5), alone = Tensor::Empty(x_.shape());
  const auto backward = [&](const TensorView& add, const TensorView& out) {
    LayerNormBackward(x_.view(), gain_.view(), mean_.view(), rstd_.view(), dy_.view(), add, out);
  };
  backward(skip.view(), dx_.view());
  backward(in_place.view(), in_place.view());
  backward({}, alone.view());
  EXPECT_TRUE(SameBits(dx_.view(), in_place.view()));
  for (int64_t i = 0; i < dx_.elements(); ++i) {
    EXPECT_EQ(dx_.f32()[i], skip.f32()[i] + alone.f32()[i]);
  }
}

TEST(LayerNormParameters, MicroBatchesReachNoBit) {
  Tensor x = Normals({4, 300, 20}, 1), mean = Normals({4, 300}, 2), rstd = Normals({4, 300}, 3);
  Tensor dy = Normals({4, 300, 20}, 4);
  TokenSum order{.tokens = 300};
  Tensor gain = Tensor::Empty({1, 20}), bias = Tensor::Empty({1, 20});
  Tensor gain_parts = Tensor::Empty({1, 20}), bias_parts = Tensor::Empty({1, 20});
  LayerNormBackwardParameters(x.view(), mean.view(), rstd.view(), dy.view(), gain.view(), bias.view(), order);
  for (int64_t sample = 0; sample < 4; ++sample) {
    LayerNormBackwardParameters(x.view().Slice(sample, 1), mean.view().Slice(sample, 1),
                                rstd.view().Slice(sample, 1), dy.view().Slice(sample, 1), gain_parts.view(),
                                bias_parts.view(), order);
    order.lanes_set = LanesSetAfter(order, 300);
  }
  EXPECT_TRUE(SameBits(gain.view(), gain_parts.view()));
  EXPECT_TRUE(SameBits(bias.view(), bias_parts.view()));
}

}  // namespace
}  // namespace samestep
