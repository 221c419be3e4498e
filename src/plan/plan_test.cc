#include "plan/plan.h"

#include <gtest/gtest.h>

#include "model/decoder.h"

namespace samestep {
namespace {

PlanConfig Config() {
  PlanConfig c;
  c.model = {.family = DecoderFamily::kLlama,
             .vocab = 1000,
             .vocab_padded = 1000,
             .hidden = 64,
             .layers = 3,
             .heads = 4,
             .kv_heads = 2,
             .head_size = 16,
             .intermediate = 96,
             .sequence = 50,
             .rope_base = Decimal::Of(10000)};
  c.global_batch = 8;
  c.micro_batch = 4;
  return c;
}

TEST(Plan, CountsTheParametersThatTheModelHas) {
  const PlanConfig c = Config();
  Decoder model(c.model, 1);
  EXPECT_EQ(ModelParameters(c.model).value(), model.parameters().elements());
  EXPECT_EQ(PlanRank(c, {}).parameters.value(), model.parameters().elements());
}

// By hand: S = 50 tokens of 8 samples.
TEST(Plan, CountsMultiplyAdds) {
  PlanConfig c = Config();
  const int64_t tokens = 400, linear = 64 * (128 + 64 + 192 + 96) * 3, head = 64 * 1000;
  const int64_t attention = 8 * (50 * 51 / 2) * 4 * 16 * 3;
  EXPECT_EQ(PlanRank(c, {}).multiply_adds.value(), 3 * tokens * (linear + head) + 7 * attention);
  EXPECT_EQ(PlanRank(c, {}).recompute.value(), 0);
  c.model.recompute_layers = true;
  EXPECT_EQ(PlanRank(c, {}).recompute.value(), tokens * linear + 2 * attention);
}

TEST(Plan, RanksShareTheArithmetic) {
  PlanConfig c = Config();
  const int64_t alone = PlanRank(c, {}).multiply_adds.value();
  c.model.data_lanes = 2;
  c.model.tensor_lanes = 2;
  c.layout = {.data = 2, .tensor = 2, .pipeline = 2};
  int64_t together = 0;
  for (int rank = 0; rank < 8; ++rank) together += PlanRank(c, PlaceOf(c.layout, rank)).multiply_adds.value();
  EXPECT_EQ(together, alone);
}

TEST(Plan, LargestRanksAreTheLargest) {
  PlanConfig c = Config();
  c.model.data_lanes = 4;
  c.model.tensor_lanes = 2;
  c.model.tied_output = true;
  c.layout = {.data = 4, .tensor = 2, .pipeline = 3};
  Count most, sent, largest_sent;
  for (int rank = 0; rank < c.layout.ranks(); ++rank) {
    const RankPlan plan = PlanRank(c, PlaceOf(c.layout, rank));
    most = std::max(most, plan.Memory());
    sent = std::max(sent, plan.BytesSent());
  }
  const std::vector<RankPlan> largest = PlanLargestRanks(c);
  for (const RankPlan& plan : largest) largest_sent = std::max(largest_sent, plan.BytesSent());
  EXPECT_EQ(MostMemory(largest), most);
  EXPECT_EQ(largest_sent, sent);
}

TEST(Plan, MicroBatchAndRecomputationChangeMemory) {
  PlanConfig c = Config();
  const Count all = PlanRank(c, {}).Memory();
  c.model.recompute_layers = true;
  EXPECT_LT(PlanRank(c, {}).Memory(), all);
}

TEST(Plan, WhatCannotFitIsRefusedWithTheWaysOut) {
  PlanConfig c = Config();
  EXPECT_TRUE(CheckMemory(c, 1).ok());
  EXPECT_EQ(CheckMemory(c, 1 << 20).code(), StatusCode::kUsage);  // so many processes on one machine
  c.global_batch = c.micro_batch = int64_t{1} << 24;
  const Status status = CheckMemory(c, 1);
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_NE(status.message().find("train.micro_batch"), std::string::npos);
  c = Config();
  c.sample_order = int64_t{1} << 50;
  EXPECT_NE(CheckMemory(c, 1).message().find("train.steps"), std::string::npos);
}

TEST(Plan, CountsStopAtTheLargest) {
  const Count large = int64_t{1} << 62;
  EXPECT_EQ((large * 4).value(), Count::kMost);
  EXPECT_EQ((large + large + large).value(), Count::kMost);
  PlanConfig c = Config();
  c.model.hidden = c.model.intermediate = int64_t{1} << 40;
  EXPECT_EQ(PlanRank(c, {}).Memory().value(), Count::kMost);
  EXPECT_EQ(CheckMemory(c, 1).code(), StatusCode::kUsage);
}

}  // namespace
}  // namespace samestep
