// trainer.h: one training step after another: tokens in, loss, norm and trajectory digest out.
//
//   Trainer trainer(config, tokens_of_sample);
//   trainer.Initialize();
//   SAMESTEP_ASSIGN_OR_RETURN(StepReport report, trainer.Step());
//
// On several ranks (parallel/process_grid.h) every rank makes the same calls and gets the same report; tokens
// are read for the samples of its data rank alone.
//
// The trainer knows no files: tokens come from a function, checkpoints read and write its named state
// (train/state.h), and the loop around it is train/run.h.
//
// Determinism: a step is a function of the configuration, the state and the tokens; the micro-batch size, the
// layout and the schedule of threads are not part of it. The digest is that of numerics page 7.
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
  Trainer(const TrainerConfig& config, TokenReader reader, ProcessGrid& grid = ProcessGrid::Alone());

  // Weights from their addressed random streams, moments +0, step 0.
  void Initialize();
  Result<StepReport> Step();
  // Mean loss over samples [0, count) of the reader.
  Result<double> Evaluate(const TokenReader& reader, int64_t count);

  const TrainerConfig& config() const { return config_; }
  ProcessGrid& grid() const { return *grid_; }
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
  std::vector<MicroBatch> MicroBatches() const;
  // The exact sum of the losses of all ranks; `state` is this rank's.
  void SumLosses(const TensorView& state) const;
  Status NotFinite(const StepReport& report) const;
  // That the ranks of a tensor group agree on what each has computed for itself.
  Status CheckReplicas(const TensorView& loss_state);
  void ExtendDigest(const StepReport& report);

  TrainerConfig config_;
  TokenReader reader_;
  ProcessGrid* grid_;
  Range samples_;  // of the global batch, on this rank
  Decoder model_;
  Optimizer optimizer_;
  Position position_;
  Tensor tokens_, targets_;  // i32 [samples of this rank, sequence]
};

}  // namespace samestep
