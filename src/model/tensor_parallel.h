// tensor_parallel.h: what happens between the linear layers of tensor ranks: gather tokens, sum partials.
//
//   TensorParallel tp(grid, config, max_samples);
//   TensorView all = tp.Gather(batch, own, a.norm1);               // own tokens of each rank -> all tokens
//   TensorView partial = tp.PartialOf(batch, dst);                 // where a product over local lanes goes
//   LinearForward(src, weights, {}, partial, tp.lanes());
//   tp.Reduce(batch, partial, dst);                                // -> own tokens, summed over all lanes
//
// With one tensor rank own and all tokens are the same memory, and nothing is moved or summed.
//
// Determinism: bytes move; the tree over ranks continues that over the lanes of each (numerics page 1.1).
#pragma once

#include "model/micro_batch.h"
#include "parallel/process_grid.h"

namespace samestep {

class TensorParallel {
 public:
  TensorParallel(ProcessGrid& grid, const DecoderConfig& config, int64_t max_samples);

  int ranks() const { return group_->size(); }
  int rank() const { return group_->rank(); }
  bool alone() const { return ranks() == 1; }
  int lanes() const { return lanes_ / ranks(); }  // tensor lanes of this rank
  Communicator& group() const { return *group_; }
  TokenSlice slice() const { return {rank(), ranks()}; }

  // `all` is memory for the tokens of all ranks; with one rank that of `own`.
  TensorView Gather(const MicroBatch& batch, const TensorView& own, const Tensor& all) const;
  TensorView PartialOf(const MicroBatch& batch, const TensorView& dst) const;
  void Reduce(const TensorView& partial, const TensorView& dst) const;
  // Memory for all tokens of all ranks, [samples, sequence, hidden], that calls may use for what they gather.
  const Tensor& all_tokens() const { return all_tokens_; }
  // `view` as this rank's part of a sum over the tensor lanes.
  TensorView Partial(const TensorView& view) const;
  // `view` of this rank's columns at their place among those of all ranks.
  TensorView Columns(const TensorView& view) const;
  // [samples, heads of this rank, sequence] at their place.
  TensorView Heads(const TensorView& view) const;

 private:
  Communicator* group_;
  int lanes_;
  Tensor all_tokens_;  // [samples, sequence, hidden]; empty with one rank
  Tensor partial_;     // the same
  Tensor parts_;       // [ranks, samples, sequence / ranks, hidden]
};

}  // namespace samestep
