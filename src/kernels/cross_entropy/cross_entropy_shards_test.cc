// Cross-entropy split over shards of the vocabulary has the bits of the whole. (Fast against reference:
// kernels/registry_test.cc.)
#include "kernels/cross_entropy/cross_entropy_shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/test_tensor.h"

namespace samestep {
namespace {

constexpr int64_t kSamples = 3, kTokens = 20, kRows = kSamples * kTokens;
constexpr float kWeight = 1.0f / 29;

struct Vocabulary {
  int64_t vocab, lane_size;
  int lanes;
  int64_t padded() const { return lane_size * lanes; }
};

// Logits [samples, tokens, columns] of `vocabulary`, of which a part is stored as a process would.
Tensor PartOfLogits(const Vocabulary& v, int64_t first, int64_t stored) {
  const Tensor all = Normals({kRows, v.vocab}, 7, 3);
  Tensor part = Tensor::Empty({kSamples, kTokens, stored});
  for (int64_t i = 0; i < part.elements(); ++i) {
    const int64_t column = first + i % stored;
    part.f32()[i] =
        column < v.vocab ? all.f32()[i / stored * v.vocab + column] : std::numeric_limits<float>::quiet_NaN();
  }
  return part;
}

Tensor Targets(int64_t vocab) {
  Tensor targets = Tensor::Empty({kSamples, kTokens}, DType::kI32);
  for (int64_t i = 0; i < kRows; ++i) {
    const uint64_t r = SplitMix(static_cast<uint64_t>(i));
    targets.i32()[i] = i % 7 == 3 ? -1 : static_cast<int32_t>(r % static_cast<uint64_t>(vocab));
  }
  targets.i32()[0] = 0, targets.i32()[1] = static_cast<int32_t>(vocab - 1);
  return targets;
}

// All that comes out of it; `logits` without padding, shard by shard and row by row.
struct Result {
  std::vector<float> loss = std::vector<float>(kRows), row_max = loss, row_sum = loss;
  std::vector<float> logits = std::vector<float>();
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TensorView ViewOf(std::vector<float>& values) { return samestep::ViewOf(values.data(), {kSamples, kTokens}); }

Result Whole(const Vocabulary& v, bool want_gradient) {
  const Tensor logits = PartOfLogits(v, 0, v.padded()), targets = Targets(v.vocab);
  Result r;
  CrossEntropy(logits.view().Columns(0, v.vocab), targets.view(), ViewOf(r.loss), ViewOf(r.row_max),
               ViewOf(r.row_sum),
               {.vocab_lane_size = v.lane_size,
                .tensor_lanes = v.lanes,
                .weight = kWeight,
                .want_gradient = want_gradient});
  r.logits.assign(logits.f32(), logits.f32() + logits.elements());
  return r;
}

// What `shards` processes do, each on its own columns; in turn, as what they gather is a row of `all`.
class Processes {
 public:
  Processes(const Vocabulary& v, int shards, bool want_gradient)
      : v_(v), shards_(shards), want_gradient_(want_gradient), targets_(Targets(v.vocab)) {
    for (int s = 0; s < shards; ++s) logits_.push_back(PartOfLogits(v, s * columns(), columns()));
  }

  Result Run() {
    for (int s = 0; s < shards_; ++s) CrossEntropyMax(Logits(s), maxima_.view().Slice(s, 1));
    for (int s = 0; s < shards_; ++s) {
      CrossEntropySum(Logits(s), targets_.view(), Gathered(maxima_), ViewOf(result_.row_max),
                      sums.view().Slice(s, 1), chosen_.view().Slice(s, 1), Shard(s), want_gradient_);
    }
    for (int s = 0; s < shards_; ++s) {
      CrossEntropyLoss(Logits(s), targets_.view(), ViewOf(result_.row_max), Gathered(sums), Gathered(chosen_),
                       ViewOf(result_.loss), ViewOf(result_.row_sum), Shard(s), kWeight, want_gradient_);
    }
    Join();
    return result_;
  }

  Tensor sums = Tensor::Empty({4, kRows});  // lane sums

 private:
  int64_t columns() const { return v_.padded() / shards_; }
  TensorView Gathered(const Tensor& all) const { return all.view().Slice(0, shards_); }
  VocabularyShard Shard(int s) const {
    return {.first_column = s * columns(),
            .lane_size = v_.lane_size,
            .lanes = v_.lanes / shards_,
            .vocab = v_.vocab};
  }
  TensorView Logits(int s) const {
    const int64_t real = std::clamp<int64_t>(v_.vocab - s * columns(), 0, columns());
    return logits_[static_cast<size_t>(s)].view().Columns(0, real);
  }
  void Join() {
    for (int64_t row = 0; row < kRows; ++row) {
      for (const Tensor& part : logits_) {
        result_.logits.insert(result_.logits.end(), part.f32() + row * columns(),
                              part.f32() + (row + 1) * columns());
      }
    }
  }

  Vocabulary v_;
  int shards_;
  bool want_gradient_;
  Tensor targets_, maxima_ = Tensor::Empty({4, kRows}), chosen_ = Tensor::Empty({4, kRows});
  std::vector<Tensor> logits_;
  Result result_;
};

const Vocabulary kVocabularies[] = {
    {256, 64, 4},  // no padding
    {250, 32, 8},  // the last lane is shorter
    {100, 48, 4},  // of two shards one has no whole lane, of four one is wholly padding
    {37, 16, 8},   // several lanes are empty
    {3, 4, 4},     // all but the first shard are padding
};

TEST(CrossEntropyShards, HaveTheBitsOfTheWhole) {
  for (const Vocabulary& v : kVocabularies) {
    for (const bool want_gradient : {false, true}) {
      const Result whole = Whole(v, want_gradient);
      for (const int shards : {1, 2, 4}) {
        const Result split = Processes(v, shards, want_gradient).Run();
        const auto where = fmt::format("vocabulary {}, {} lanes, {} shards, gradient {}", v.vocab, v.lanes,
                                       shards, want_gradient);
        EXPECT_TRUE(SameBits(split.loss, whole.loss)) << where;
        EXPECT_TRUE(SameBits(split.row_max, whole.row_max)) << where;
        EXPECT_TRUE(SameBits(split.row_sum, whole.row_sum)) << where;
        EXPECT_TRUE(SameBits(split.logits, whole.logits)) << where;
      }
    }
  }
}

// Negative control: the shards' sums added from left to right, or in the order of a ring, are not the tree.
TEST(CrossEntropyShards, LaneSumsInAnotherOrderHaveOtherBits) {
  const Vocabulary v = kVocabularies[0];
  Processes processes(v, 4, true);
  const Result split = processes.Run();
  int left_to_right = 0, ring = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto sum = [&](int s) { return processes.sums.f32()[s * kRows + row]; };
    ASSERT_EQ((sum(0) + sum(1)) + (sum(2) + sum(3)), split.row_sum[static_cast<size_t>(row)]);
    left_to_right += ((sum(0) + sum(1)) + sum(2)) + sum(3) != split.row_sum[static_cast<size_t>(row)];
    ring += ((sum(1) + sum(2)) + sum(3)) + sum(0) != split.row_sum[static_cast<size_t>(row)];
  }
  EXPECT_GT(left_to_right, 0);
  EXPECT_GT(ring, 0);
}

TEST(CrossEntropyShards, MaximumOfNoColumnsAndOfZerosOfBothSigns) {
  Tensor logits = Tensor::Zeros({2, 3}), own = Tensor::Empty({2});
  CrossEntropyMax(logits.view().Columns(0, 0), own.view());
  EXPECT_EQ(own.f32()[1], -std::numeric_limits<float>::infinity());
  logits.f32()[0] = logits.f32()[2] = -0.0f;
  CrossEntropyMax(logits.view(), own.view());
  EXPECT_FALSE(std::signbit(own.f32()[0]));
  // -0 in one shard, +0 in the other.
  Tensor maxima = Tensor::Zeros({2, 1}), target = Tensor::Zeros({1}, DType::kI32),
         one = Tensor::Zeros({1, 1});
  Tensor row_max = Tensor::Empty({1}), sum = Tensor::Empty({1}), chosen = Tensor::Empty({1});
  for (const int64_t negative : {0, 1}) {
    maxima.f32()[negative] = -0.0f, maxima.f32()[1 - negative] = 0.0f;
    CrossEntropySum(one.view(), target.view(), maxima.view(), row_max.view(), sum.view(), chosen.view(),
                    {.lane_size = 1, .vocab = 2}, false);
    EXPECT_FALSE(std::signbit(row_max.f32()[0]));
  }
}

// The target's logit is chosen, not summed: -0 stays -0, and what another shard says is not read.
TEST(CrossEntropyShards, TargetLogitIsTheOwners) {
  Tensor p = Tensor::Zeros({1, 2}), target = Tensor::Zeros({1}, DType::kI32), m = Tensor::Zeros({1});
  Tensor sums = Tensor::Zeros({2, 1}), chosen = Tensor::Zeros({2, 1}), loss = Tensor::Empty({1}),
         l = Tensor::Empty({1});
  target.i32()[0] = 3, sums.f32()[1] = 1;
  chosen.f32()[0] = std::numeric_limits<float>::quiet_NaN(), chosen.f32()[1] = -5;
  CrossEntropyLoss(p.view(), target.view(), m.view(), sums.view(), chosen.view(), loss.view(), l.view(),
                   {.lane_size = 2, .vocab = 4}, 1, false);
  EXPECT_EQ(loss.f32()[0], 5);
}

TEST(CrossEntropyShardsDeathTest, TargetOutsideTheVocabularyStops) {
  Tensor z = Tensor::Zeros({1, 2}), target = Tensor::Zeros({1}, DType::kI32), value = Tensor::Zeros({1});
  target.i32()[0] = 5;
  EXPECT_DEATH(CrossEntropySum(z.view(), target.view(), value.view().Reshaped({1, 1}), value.view(),
                               value.view(), value.view(), {.lane_size = 5, .vocab = 5}, false),
               "target");
}

}  // namespace
}  // namespace samestep
