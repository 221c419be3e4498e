// cross_entropy_shards_call.h: the calls of cross_entropy.sum and cross_entropy.loss read back, with sizes
// checked. Shared by the fast kernels and their references.
//
// Determinism: plain descriptions.
#pragma once

#include "kernels/call.h"

namespace samestep {

// Rows of this shard's logits and the targets of all of them.
struct ShardRows {
  explicit ShardRows(const Call& call);
  float* Row(int64_t row) const { return logits + row * stride; }
  // The target of a row, checked: -1 if masked.
  int32_t Target(int64_t row) const;
  // Its column in this shard; -1 if it is masked or another shard's.
  int64_t Column(int32_t target) const;

  float* logits;
  const int32_t* targets;
  int64_t rows, columns, stride, first_column, vocab;
};

struct CrossEntropySumArguments : ShardRows {
  explicit CrossEntropySumArguments(const Call& call);
  const float* maxima;
  float *row_max, *lane_sum, *target_logit;
  int64_t shards, lane_size, lanes;
  bool want_gradient;
};

struct CrossEntropyLossArguments : ShardRows {
  explicit CrossEntropyLossArguments(const Call& call);
  // The target's logit, from the shard that has it.
  float TargetLogit(int32_t target, int64_t row) const;

  const float *row_max, *lane_sums, *target_logits;
  float *loss, *row_sum;
  int64_t shards, shard_columns;
  float weight;
  bool want_gradient;
};

}  // namespace samestep
