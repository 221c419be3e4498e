#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/test_tensor.h"

namespace samestep {
namespace {

constexpr int64_t kVocabulary = 7, kFeatures = 5;

// Tokens of `samples` samples, some of them never used.
Tensor Tokens(int64_t samples, int64_t length) {
  Tensor tokens = Tensor::Empty({samples, length}, DType::kI32);
  for (int64_t i = 0; i < tokens.elements(); ++i) {
    tokens.i32()[i] = static_cast<int32_t>(SplitMix(static_cast<uint64_t>(i)) % (kVocabulary - 1));
  }
  return tokens;
}

TEST(Embedding, KeepsNegativeZeroWithoutPositions) {
  Tensor tokens = Tensor::Zeros({1, 1}, DType::kI32), weights = Tensor::Zeros({1, 2}),
         x = Tensor::Empty({1, 1, 2});
  weights.f32()[1] = -0.0f;
  EmbeddingForward(tokens.view(), weights.view(), {}, x.view());
  EXPECT_FALSE(std::signbit(x.f32()[0]));
  EXPECT_TRUE(std::signbit(x.f32()[1]));
  Tensor positions = Tensor::Zeros({1, 2});
  EmbeddingForward(tokens.view(), weights.view(), positions.view(), x.view());
  EXPECT_FALSE(std::signbit(x.f32()[1]));  // fl(-0 + +0)
}

TEST(Embedding, PositionsCountWithinEachSample) {
  Tensor tokens = Tokens(2, 3), weights = Normals({kVocabulary, kFeatures}, 1);
  Tensor positions = Normals({4, kFeatures}, 2), x = Tensor::Empty({2, 3, kFeatures});
  EmbeddingForward(tokens.view(), weights.view(), positions.view(), x.view());
  for (int64_t p = 0; p < 6; ++p) {
    for (int64_t i = 0; i < kFeatures; ++i) {
      EXPECT_EQ(x.f32()[p * kFeatures + i],
                weights.f32()[tokens.i32()[p] * kFeatures + i] + positions.f32()[p % 3 * kFeatures + i]);
    }
  }
}

TEST(EmbeddingDeathTest, TokenOutsideTheVocabularyStops) {
  Tensor tokens = Tensor::Zeros({1, 1}, DType::kI32), weights = Tensor::Zeros({3, 2}),
         x = Tensor::Empty({1, 1, 2});
  tokens.i32()[0] = 3;
  EXPECT_DEATH(EmbeddingForward(tokens.view(), weights.view(), {}, x.view()), "token");
  tokens.i32()[0] = -1;
  EXPECT_DEATH(EmbeddingForward(tokens.view(), weights.view(), {}, x.view()), "token");
}

// The gradients are linear: each is the sum of the gradients of the rows it was used in.
TEST(Embedding, GradientSumsTheRowsOfEachTokenAndPosition) {
  Tensor tokens = Tokens(3, 8), dx = Normals({3, 8, kFeatures}, 3);
  Tensor lanes = Tensor::Empty({2, kVocabulary, kFeatures}),
         position_lanes = Tensor::Empty({2, 10, kFeatures});
  const TokenSum order{.tokens = 8, .token_lanes = 2};
  EmbeddingBackward(tokens.view(), dx.view(), lanes.view(), order);
  PositionBackward(dx.view(), position_lanes.view(), order);
  std::vector<double> of_token(2 * kVocabulary * kFeatures), of_position(2 * 10 * kFeatures);
  for (int64_t p = 0; p < 24; ++p) {
    const int64_t lane = p % 8 / 4;
    for (int64_t i = 0; i < kFeatures; ++i) {
      const double value = dx.f32()[p * kFeatures + i];
      of_token[(lane * kVocabulary + tokens.i32()[p]) * kFeatures + i] += value;
      of_position[(lane * 10 + p % 8) * kFeatures + i] += value;
    }
  }
  for (size_t i = 0; i < of_token.size(); ++i) EXPECT_NEAR(lanes.f32()[i], of_token[i], 1e-5);
  for (size_t i = 0; i < of_position.size(); ++i) EXPECT_NEAR(position_lanes.f32()[i], of_position[i], 1e-5);
}

TEST(Embedding, MicroBatchesReachNoBit) {
  Tensor tokens = Tokens(4, 300), dx = Normals({4, 300, kFeatures}, 4);
  TokenSum order{.tokens = 300, .token_lanes = 2};
  Tensor whole = Tensor::Empty({2, kVocabulary, kFeatures}), parts = Tensor::Empty(whole.shape());
  Tensor position = Tensor::Empty({2, 300, kFeatures}), position_parts = Tensor::Empty(position.shape());
  EmbeddingBackward(tokens.view(), dx.view(), whole.view(), order);
  PositionBackward(dx.view(), position.view(), order);
  for (int64_t sample = 0; sample < 4; ++sample) {
    const TensorView part = dx.view().Slice(sample, 1);
    EmbeddingBackward(tokens.view().Slice(sample, 1), part, parts.view(), order);
    PositionBackward(part, position_parts.view(), order);
    order.lanes_set = LanesSetAfter(order, 300);
  }
  EXPECT_TRUE(SameBits(whole.view(), parts.view()));
  EXPECT_TRUE(SameBits(position.view(), position_parts.view()));
}

// A table split by rows: the parts' gradients are the rows of the whole's.
TEST(Embedding, GradientsOfPartsOfTheTableAreRowsOfTheWhole) {
  Tensor tokens = Tokens(3, 40), dx = Normals({3, 40, kFeatures}, 5);
  const TokenSum order{.tokens = 40, .token_lanes = 2};
  Tensor whole = Tensor::Empty({2, kVocabulary, kFeatures});
  EmbeddingBackward(tokens.view(), dx.view(), whole.view(), order);
  for (int64_t first = 0; first <= kVocabulary; first += 3) {
    const int64_t rows = std::min<int64_t>(3, kVocabulary - first);
    Tensor part = Tensor::Empty({2, rows, kFeatures});
    EmbeddingBackward(tokens.view(), dx.view(), part.view(), order, first);
    for (int64_t lane = 0; lane < 2; ++lane) {
      EXPECT_EQ(std::memcmp(part.f32() + lane * rows * kFeatures,
                            whole.f32() + (lane * kVocabulary + first) * kFeatures,
                            static_cast<size_t>(rows * kFeatures) * sizeof(float)),
                0)
          << first;
    }
  }
}

}  // namespace
}  // namespace samestep
