#include "model/tensor_parallel.h"

#include "parallel/exchange.h"
#include "parallel/shard.h"

namespace samestep {

TensorParallel::TensorParallel(ProcessGrid& grid, const DecoderConfig& c, int64_t max_samples)
    : group_(&grid.tensor()), lanes_(c.tensor_lanes) {
  if (alone()) return;
  const Shape shape{max_samples, c.sequence, c.hidden};
  all_tokens_ = Tensor::Empty(shape);
  partial_ = Tensor::Empty(shape);
  parts_ = Tensor::Empty(shape);
}

TensorView TensorParallel::Gather(const MicroBatch& batch, const TensorView& own, const Tensor& all) const {
  if (alone()) return own;
  const TensorView gathered = batch.AllTokens(all);
  GatherTokens(*group_, own, gathered);
  return gathered;
}

TensorView TensorParallel::PartialOf(const MicroBatch& batch, const TensorView& dst) const {
  if (alone()) return dst;
  return Partial(batch.AllTokens(partial_));
}

TensorView TensorParallel::Partial(const TensorView& view) const {
  return view.AsPartial(rank() * lanes(), (rank() + 1) * lanes(), lanes_);
}

void TensorParallel::Reduce(const TensorView& partial, const TensorView& dst) const {
  if (!alone()) ReduceTokens(*group_, partial, parts_, dst);
}

TensorView TensorParallel::Columns(const TensorView& view) const {
  return AsColumns(view, view.columns() * ranks(), view.columns() * rank());
}

TensorView TensorParallel::Heads(const TensorView& view) const {
  TensorView part = view;
  part.global_shape[1] = view.shape[1] * ranks();
  part.offsets[1] = view.shape[1] * rank();
  return part;
}

}  // namespace samestep
