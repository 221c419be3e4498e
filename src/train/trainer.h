// trainer.h: one training step after another: tokens in, loss, norm and trajectory digest out.
//
//   Trainer trainer(config, tokens_of_sample);
//   trainer.Initialize();
//   SAMESTEP_ASSIGN_OR_RETURN(StepReport report, trainer.Step());
//
// The trainer knows no files: tokens come from a function, checkpoints read and write its named state
// (train/state.h), and the loop around it is train/run.h.
//
// Determinism: a step is a function of the configuration, the state and the tokens; the micro-batch size and
// the schedule of threads are not part of it. The digest is that of numerics page 7.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fingerprint/digest.h"
#include "model/decoder.h"
#include "optimizer/optimizer.h"
#include "optimizer/schedule.h"

namespace samestep {

struct TrainerConfig {
  DecoderConfig model;
  OptimizerConfig optimizer;
  LearningRateSchedule schedule;
  uint64_t seed = 0;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;  // samples that go through the model together
};

// Fills `tokens` (sequence + 1 of them) of the sample with this number; -1 masks a target.
using TokenReader = std::function<Status(int64_t sample, std::span<int32_t> tokens)>;

struct StepReport {
  int64_t step = 0;
  int64_t consumed_samples = 0;
  double loss = 0;
  double norm = 0;  // of the gradients, before clipping
  float learning_rate = 0;
  int64_t targets = 0;  // unmasked
  Digest digest;        // of the trajectory up to this step
};

class Trainer {
 public:
  Trainer(const TrainerConfig& config, TokenReader reader);

  // Weights from their addressed random streams, moments +0, step 0.
  void Initialize();
  Result<StepReport> Step();
  // Mean loss over samples [0, count) of the reader.
  Result<double> Evaluate(const TokenReader& reader, int64_t count);

  const TrainerConfig& config() const { return config_; }
  Decoder& model() { return model_; }
  const Decoder& model() const { return model_; }
  Optimizer& optimizer() { return optimizer_; }

  // Named state besides the tensors.
  struct Position {
    int64_t step = 0;
    int64_t consumed_samples = 0;
    Digest digest;
  };
  Position& position() { return position_; }

 private:
  Result<int64_t> ReadGlobalBatch();  // the number of unmasked targets
  void ExtendDigest(const StepReport& report);
  MicroBatch BatchOf(int64_t first, int64_t count, int64_t global_batch, int data_lanes);

  TrainerConfig config_;
  TokenReader reader_;
  Decoder model_;
  Optimizer optimizer_;
  Position position_;
  Tensor tokens_, targets_;  // i32 [global batch, sequence]
};

}  // namespace samestep
