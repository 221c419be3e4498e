#include "model/micro_batch.h"

#include <algorithm>

namespace samestep {
namespace {

TensorView AtSample(const TensorView& view, int64_t first_sample, int64_t global_batch) {
  Shape global = view.shape, at = view.shape;
  for (int i = 0; i < at.rank(); ++i) at[i] = 0;
  global[0] = global_batch;
  at[0] = first_sample;
  return view.Within(global, at);
}

}  // namespace

TensorView MicroBatch::AllTokens(const Tensor& tensor) const {
  Shape shape = tensor.shape();
  shape[0] = samples;
  shape[1] = sequence();
  SAMESTEP_CHECK_LE(shape.elements(), tensor.elements());
  return AtSample(ViewOf(tensor.view().data, shape), first_sample, global_batch);
}

TensorView MicroBatch::OwnTokens(const Tensor& tensor) const {
  Shape shape = tensor.shape();
  shape[0] = samples;
  shape[1] = own_tokens();
  SAMESTEP_CHECK_LE(shape.elements(), tensor.elements());
  TensorView view = AtSample(ViewOf(tensor.view().data, shape), first_sample, global_batch);
  view.global_shape[1] = sequence();
  view.offsets[1] = slice.index * own_tokens();
  return view;
}

TensorView MicroBatch::Heads(const Tensor& tensor) const {
  const Shape shape{samples, tensor.shape()[1], sequence()};
  SAMESTEP_CHECK_LE(shape.elements(), tensor.elements());
  return AtSample(ViewOf(tensor.view().data, shape), first_sample, global_batch);
}

MicroBatch MakeMicroBatch(int64_t first_sample, int64_t global_batch, int data_lanes,
                          const TensorView& tokens, const TensorView& targets, const TokenSlice& slice) {
  MicroBatch batch;
  batch.slice = slice;
  batch.first_sample = first_sample;
  batch.samples = tokens.shape[0];
  batch.global_batch = global_batch;
  batch.tokens = AtSample(tokens, first_sample, global_batch);
  batch.targets = AtSample(targets, first_sample, global_batch);
  SAMESTEP_CHECK_EQ(global_batch % data_lanes, int64_t{0});
  SAMESTEP_CHECK_EQ(batch.sequence() % slice.count, int64_t{0});
  const int64_t per_lane = global_batch / data_lanes;
  for (int64_t i = 0; i < batch.samples;) {
    const int64_t left_in_lane = per_lane - (first_sample + i) % per_lane;
    const int64_t count = std::min(left_in_lane, batch.samples - i);
    batch.segments.push_back({i, count, count == left_in_lane});
    i += count;
  }
  return batch;
}

}  // namespace samestep
