// micro_batch.h: consecutive samples of the global batch that go through the model together.
//
//   MicroBatch batch = MakeMicroBatch(first_sample, samples, config, global_batch, tokens, targets);
//   TensorView x = batch.Part(activation);       // the rows in use, at their place in the global batch
//
// Determinism: segments tell which samples belong to which data lane, so that sums do not see micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "tensor/tensor.h"

namespace samestep {

// Consecutive samples of one data lane.
struct LaneSegment {
  int64_t first = 0, samples = 0;  // within the micro-batch
  bool ends_lane = false;          // the lane's last sample is its last
};

struct MicroBatch {
  int64_t first_sample = 0, samples = 0, global_batch = 0;
  TensorView tokens, targets;  // i32 [samples, sequence]; a target of -1 is masked
  std::vector<LaneSegment> segments;

  int64_t sequence() const { return tokens.shape[1]; }
  // Memory of [max samples, max sequence, …] as [samples, sequence, …], a shard of the global batch.
  TensorView Part(const Tensor& tensor) const;
  // Memory of [max samples, heads, max sequence] as [samples, heads, sequence].
  TensorView HeadsPart(const Tensor& tensor) const;
};

MicroBatch MakeMicroBatch(int64_t first_sample, int64_t global_batch, int data_lanes,
                          const TensorView& tokens, const TensorView& targets);

}  // namespace samestep
