// micro_batch.h: consecutive samples of the global batch that go through the model together.
//
//   MicroBatch batch = MakeMicroBatch(first_sample, global_batch, data_lanes, tokens, targets, slice);
//   TensorView x = batch.OwnTokens(activation);   // of the tokens that this tensor rank works on
//   TensorView y = batch.AllTokens(gathered);     // of all tokens; both at their place in the global batch
//
// Tensor ranks share the work between linear layers by tokens (sequence parallel): each takes one of equal
// slices of every sample. With one tensor rank the slice is the sample.
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

// Slice `index` of `count` equal ones.
struct TokenSlice {
  int index = 0, count = 1;
};

struct MicroBatch {
  int64_t first_sample = 0, samples = 0, global_batch = 0;
  TensorView tokens, targets;  // i32 [samples, sequence]; a target of -1 is masked
  TokenSlice slice;
  std::vector<LaneSegment> segments;

  int64_t sequence() const { return tokens.shape[1]; }
  int64_t own_tokens() const { return sequence() / slice.count; }
  // Memory of [max samples, max tokens, …] as [samples, tokens, …], a shard of the global batch.
  TensorView AllTokens(const Tensor& tensor) const;
  TensorView OwnTokens(const Tensor& tensor) const;
  // Memory of [max samples, heads, max sequence] as [samples, heads, sequence].
  TensorView Heads(const Tensor& tensor) const;
};

MicroBatch MakeMicroBatch(int64_t first_sample, int64_t global_batch, int data_lanes,
                          const TensorView& tokens, const TensorView& targets, const TokenSlice& slice = {});

}  // namespace samestep
