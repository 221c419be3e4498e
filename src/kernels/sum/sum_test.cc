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

TEST(SumTest, BiasInPlaceOfPartsOfRows) {
  std::vector<float> wide(60, 1.0f), bias = {0, 1, 2, 3, 4, 5};
  const TensorView part = ViewOf(wide.data(), {3, 20}).Columns(13, 6);
  AddBias(part, ViewOf(bias.data(), {6}), part);
  for (int i = 0; i < 60; ++i) {
    const int column = i % 20 - 13;
    EXPECT_EQ(wide[i], column >= 0 && column < 6 ? 1.0f + static_cast<float>(column) : 1) << i;
  }
}

// What tensor parallelism adds up: the partial sums of `ranks` processes for tokens of several samples.
std::vector<float> TreeOfActivations(int64_t ranks, int64_t columns, bool use_reference) {
  constexpr int64_t kSamples = 2, kTokens = 3, kStride = 40;
  std::vector<float> src(static_cast<size_t>(ranks * kSamples * kTokens * kStride)), dst(6 * kStride, -7.0f);
  for (size_t i = 0; i < src.size(); ++i) src[i] = 1 / static_cast<float>(i + 1);
  const TensorView from = ViewOf(src.data(), {ranks, kSamples, kTokens, kStride}).Columns(0, columns);
  const TensorView to = ViewOf(dst.data(), {kSamples, kTokens, kStride}).Columns(0, columns);
  CallContext::Current().use_reference = use_reference;
  SumTree(from, to);
  CallContext::Current().use_reference = false;
  for (size_t i = 0; i < dst.size(); ++i) {
    std::vector<float> lanes;
    for (size_t lane = 0; lane < static_cast<size_t>(ranks); ++lane)
      lanes.push_back(src[lane * dst.size() + i]);
    const bool padding = static_cast<int64_t>(i) % kStride >= columns;
    EXPECT_EQ(dst[i], padding ? -7.0f : TreeOf(lanes)) << i;
  }
  return dst;
}

TEST(SumTest, TreeOfActivationsOfOneOrSeveralProcesses) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    for (const int64_t columns : {40, 33}) {  // rows without and with padding
      EXPECT_EQ(TreeOfActivations(ranks, columns, false), TreeOfActivations(ranks, columns, true));
    }
  }
}

}  // namespace
}  // namespace samestep
