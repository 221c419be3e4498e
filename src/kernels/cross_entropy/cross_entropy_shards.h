// cross_entropy_shards.h: cross-entropy whose vocabulary is spread over processes: three kernels, between
// which the processes gather a number a row.
//
//   CrossEntropyMax(logits, own);                                               // gather own to maxima
//   CrossEntropySum(logits, targets, maxima, row_max, own, target_logit, shard, true);
//                                                    // gather own to lane_sums, target_logit to
//                                                    target_logits
//   CrossEntropyLoss(logits, targets, row_max, lane_sums, target_logits, loss, row_sum, shard, weight, true);
//
// logits is [.., columns of this shard]: real columns only, none where the shard lies in the padding (rows of
// storage may be longer). targets, own, target_logit, row_max, row_sum and loss are [rows]; maxima, lane_sums
// and target_logits are [shards, rows], shards in ascending order; all of them contiguous.
//
// Determinism: the bits of cross_entropy.h for any split into whole subtrees of lanes: the maximum has no
// order, the sums are parts of the one tree, and the target's logit is the owner's, never a sum.
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"

namespace samestep {

extern const Kernel& kCrossEntropyMax;
extern const Kernel& kCrossEntropySum;
extern const Kernel& kCrossEntropyLoss;

// Which part of the vocabulary. All shards have lane_size * lanes columns of the padded vocabulary.
struct VocabularyShard {
  int64_t first_column = 0;  // where the shard begins; any value from vocab on where it has no columns
  int64_t lane_size = 0;     // columns of the padded vocabulary in a tensor lane
  int lanes = 1;             // of this shard: a whole subtree
  int64_t vocab = 0;         // columns of all shards, without padding
};

// Kernel cross_entropy.max. local_max of a row without columns is -infinity.
void CrossEntropyMax(const TensorView& logits, const TensorView& local_max);

// Kernel cross_entropy.sum. With want_gradient, logits of unmasked rows become expz(z - m). target_logit is
// z[t] where the target is in this shard, else +0.
void CrossEntropySum(const TensorView& logits, const TensorView& targets, const TensorView& maxima,
                     const TensorView& row_max, const TensorView& lane_sum, const TensorView& target_logit,
                     const VocabularyShard& shard, bool want_gradient);

// Kernel cross_entropy.loss. With want_gradient, logits are what CrossEntropySum left there, and become the
// gradient; weight is fl(1 / unmasked targets of the global batch).
void CrossEntropyLoss(const TensorView& logits, const TensorView& targets, const TensorView& row_max,
                      const TensorView& lane_sums, const TensorView& target_logits, const TensorView& loss,
                      const TensorView& row_sum, const VocabularyShard& shard, float weight,
                      bool want_gradient);

}  // namespace samestep
