#include "kernels/adamw/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fingerprint/fingerprint.h"
#include "kernels/test_tensor.h"

namespace samestep {
namespace {

AdamWScalars ScalarsAt(int step, float weight_decay) {
  return {.lr = 1e-2f,
          .clip = 0.5f,
          .c1 = static_cast<float>(1 / (1 - std::pow(0.9, step))),
          .c2 = static_cast<float>(1 / (1 - std::pow(0.95, step))),
          .beta1 = 0.9f,
          .beta2 = 0.95f,
          .one_minus_beta1 = 0.1f,
          .one_minus_beta2 = 0.05f,
          .eps = 1e-8f,
          .weight_decay = weight_decay};
}

TEST(AdamW, FollowsTheTextbookAndFingerprintsTheNewWeights) {
  const Shape shape{3, 1111};
  Tensor w = Normals(shape, 1), m = Tensor::Zeros(shape), v = Tensor::Zeros(shape);
  Tensor fingerprint = Tensor::Empty({2}, DType::kU64);
  std::vector<double> weights = Doubles(w), first(weights.size()), second(weights.size());
  for (int step = 1; step <= 5; ++step) {
    Tensor g = Normals(shape, 10 + static_cast<uint64_t>(step));
    AdamW(w.view(), g.view(), m.view(), v.view(), fingerprint.view(), ScalarsAt(step, 0.1f));
    for (size_t i = 0; i < weights.size(); ++i) {
      const double gradient = 0.5 * double{g.f32()[i]};
      first[i] = 0.9 * first[i] + 0.1 * gradient;
      second[i] = 0.95 * second[i] + 0.05 * gradient * gradient;
      const double update =
          first[i] / (1 - std::pow(0.9, step)) / (std::sqrt(second[i] / (1 - std::pow(0.95, step))) + 1e-8);
      weights[i] -= 1e-2 * (0.1 * weights[i] + update);
    }
    const Fingerprint expected = FingerprintOf(w.view());
    EXPECT_EQ(fingerprint.view().u64()[0], expected.a);
    EXPECT_EQ(fingerprint.view().u64()[1], expected.b);
  }
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(w.f32()[i], weights[i], 2e-6);
}

TEST(AdamW, ZeroGradientAndNoDecayChangeNothing) {
  const Shape shape{40};
  Tensor w = Normals(shape, 1), before = Normals(shape, 1), zero = Tensor::Zeros(shape);
  Tensor m = Tensor::Zeros(shape), v = Tensor::Zeros(shape), fingerprint = Tensor::Empty({2}, DType::kU64);
  AdamW(w.view(), zero.view(), m.view(), v.view(), fingerprint.view(), ScalarsAt(1, 0));
  EXPECT_TRUE(SameBits(w.view(), before.view()));
}

}  // namespace
}  // namespace samestep
