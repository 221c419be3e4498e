#include "train/memory.h"

#include <gtest/gtest.h>

namespace samestep {
namespace {

TrainerConfig Config() {
  TrainerConfig c;
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

TEST(Memory, CountsTheParametersThatTheModelHas) {
  TrainerConfig c = Config();
  Decoder model(c.model, 1);
  c.micro_batch = 0;
  c.global_batch = 0;
  const double state = 4.0 * 4 * static_cast<double>(model.parameters().elements());
  EXPECT_GT(TrainingBytes(c), state * 0.98);
  EXPECT_LT(TrainingBytes(c), state * 1.02);
}

TEST(Memory, MicroBatchAndRecomputationChangeIt) {
  TrainerConfig c = Config();
  const double all = TrainingBytes(c);
  c.model.recompute_layers = true;
  EXPECT_LT(TrainingBytes(c), all);
  c.micro_batch = 8;
  EXPECT_GT(TrainingBytes(c), TrainingBytes(Config()) * 0.5);
}

TEST(Memory, StepsCountWithTheOrderOfTheirSamples) {
  TrainerConfig c = Config();
  const double none = TrainingBytes(c);
  c.schedule.steps = 1000;
  EXPECT_EQ(TrainingBytes(c) - none, 1000.0 * 8 * 8);  // 8 samples a step, 8 bytes a sample
  c.schedule.steps = int64_t{1} << 50;
  EXPECT_EQ(CheckMemory(c).code(), StatusCode::kUsage);
  EXPECT_NE(CheckMemory(c).message().find("train.steps"), std::string::npos);
}

TEST(Memory, WhatCannotFitIsRefusedWithTheWaysOut) {
  TrainerConfig c = Config();
  EXPECT_TRUE(CheckMemory(c).ok());
  c.micro_batch = int64_t{1} << 40;
  const Status status = CheckMemory(c);
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_NE(status.message().find("train.micro_batch"), std::string::npos);
}

}  // namespace
}  // namespace samestep
