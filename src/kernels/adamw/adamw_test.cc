#include "kernels/adamw/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

// A box of a logical tensor: rows [row, row + rows), columns [column, column + columns).
struct Box {
  int64_t row, rows, column, columns;
};

// What AdamW says of the box alone, whose memory is contiguous.
Fingerprint UpdateBox(const Shape& global, const Box& box, bool use_reference) {
  const bool vector = global.rank() == 1;
  const Shape shape = vector ? Shape{box.rows} : Shape{box.rows, box.columns};
  Tensor whole = Normals(global, 1), gradient = Normals(global, 2);
  Tensor w = Tensor::Empty(shape), g = Tensor::Empty(shape);
  const int64_t columns = vector ? 1 : global[1];
  for (int64_t i = 0; i < w.elements(); ++i) {
    const int64_t from = (box.row + i / box.columns) * columns + box.column + i % box.columns;
    w.f32()[i] = whole.f32()[from];
    g.f32()[i] = gradient.f32()[from];
  }
  const TensorView view = w.view().Within(global, vector ? Shape{box.row} : Shape{box.row, box.column});
  Tensor m = Tensor::Zeros(shape), v = Tensor::Zeros(shape), fingerprint = Tensor::Empty({2}, DType::kU64);
  CallContext::Current().use_reference = use_reference;
  AdamW(view, g.view(), m.view(), v.view(), fingerprint.view(), ScalarsAt(1, 0.1f));
  CallContext::Current().use_reference = false;
  const Fingerprint result = {fingerprint.view().u64()[0], fingerprint.view().u64()[1]};
  EXPECT_EQ(result, FingerprintOf(view));
  return result;
}

TEST(AdamW, FingerprintsOfBoxesAddUpToTheWholes) {
  const Shape matrix{45, 1111}, narrow{1000, 33};
  struct Split {
    Shape global;
    std::vector<Box> boxes;
  };
  const std::vector<Split> splits = {
      {matrix, {{0, 7, 0, 1111}, {7, 0, 0, 1111}, {7, 38, 0, 1111}}},
      {matrix, {{0, 45, 0, 500}, {0, 45, 500, 611}}},
      {matrix, {{0, 10, 0, 1110}, {10, 35, 0, 1110}, {0, 45, 1110, 1}}},
      {narrow, {{0, 1000, 0, 16}, {0, 999, 16, 17}, {999, 1, 16, 17}}},
      {{5000}, {{0, 17, 0, 1}, {17, 4983, 0, 1}}},
  };
  for (const Split& split : splits) {
    const int64_t columns = split.global.rank() == 1 ? 1 : split.global[1];
    for (const bool use_reference : {false, true}) {
      const Fingerprint whole = UpdateBox(split.global, {0, split.global[0], 0, columns}, use_reference);
      Fingerprint sum;
      for (const Box& box : split.boxes) sum += UpdateBox(split.global, box, use_reference);
      EXPECT_EQ(sum, whole) << split.global.ToString();
    }
  }
}

}  // namespace
}  // namespace samestep
