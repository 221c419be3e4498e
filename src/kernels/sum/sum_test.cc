// Sums of tensors by hand-made cases. (Fast against reference: kernels/registry_test.cc.)
#include "kernels/sum/sum.h"

#include <gtest/gtest.h>

#include <vector>

namespace samestep {
namespace {

float TreeOf(std::vector<float> lanes) {
  float sum = 0;
  SumTree(ViewOf(lanes.data(), {static_cast<int64_t>(lanes.size()), 1}), ViewOf(&sum, {1}));
  return sum;
}

TEST(SumTest, NeighboursAreAddedFirst) {
  constexpr float kBig = 0x1p24f;                // fl(kBig + 1) = kBig, fl(kBig + 2) > kBig
  EXPECT_EQ(TreeOf({kBig, 1, 1, 0}), kBig);      // (big + 1) + (1 + 0)
  EXPECT_EQ(TreeOf({kBig, 0, 1, 1}), kBig + 2);  // (big + 0) + (1 + 1)
  EXPECT_EQ(TreeOf({1}), 1);
}

TEST(SumTest, OddOneOutMovesUp) {
  constexpr float kBig = 0x1p24f;
  EXPECT_EQ(TreeOf({kBig, 0, 1, 0, 1}), kBig);            // ((big + 0) + (1 + 0)) + 1
  EXPECT_EQ(TreeOf({kBig, 0, 0, 0, 1, 0, 1}), kBig + 2);  // ((big + 0) + (0 + 0)) + ((1 + 0) + 1)
}

TEST(SumTest, AddInPlace) {
  std::vector<float> left(100), right(100);
  for (int i = 0; i < 100; ++i) left[i] = static_cast<float>(i), right[i] = 0.5f;
  const TensorView to = ViewOf(left.data(), {4, 25});
  Add(to, ViewOf(right.data(), {4, 25}), to);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(left[i], static_cast<float>(i) + 0.5f);
}

TEST(SumTest, AddOfPartsOfRows) {
  std::vector<float> wide(60, 1.0f);
  const TensorView view = ViewOf(wide.data(), {3, 20});
  Add(view.Columns(0, 6), view.Columns(6, 6), view.Columns(13, 6));
  for (int i = 0; i < 60; ++i) EXPECT_EQ(wide[i], i % 20 >= 13 && i % 20 < 19 ? 2 : 1) << i;
}

}  // namespace
}  // namespace samestep
