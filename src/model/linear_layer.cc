#include "model/linear_layer.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/sum/sum.h"

namespace samestep {
namespace {

// The columns of a [.., outputs] view that box `i` of the weights' rows makes.
TensorView OutputsOf(const Shard& shard, size_t i, const TensorView& view) {
  if (shard.boxes.size() == 1) return view;
  const ShardBox& box = shard.boxes[i];
  return AsColumns(view.Columns(box.local_row, box.rows), shard.global[0], box.global_row);
}

}  // namespace

NormLayer MakeNorm(const DecoderConfig& c, ParameterSet& set, bool held, const std::string& path,
                   const std::string& name) {
  const std::string full = path + "." + name;
  NormLayer layer{name, set.Add({full + ".weight", {c.hidden}, Initial::kOnes, Cut::kReplicated}, held),
                  nullptr, c.norm_eps};
  if (c.family == DecoderFamily::kGpt2) {
    layer.bias = set.Add({full + ".bias", {c.hidden}, Initial::kZeros, Cut::kReplicated}, held);
  }
  return layer;
}

TensorView LinearLayer::BiasRows(size_t box) const {
  return bias == nullptr ? TensorView{} : bias->shard.View(bias->weights.view(), box);
}

void LinearLayer::Forward(const TensorView& src, const TensorView& dst) const {
  ScopedModule module(name);
  const Shard& shard = weights->shard;
  for (size_t i = 0; i < shard.boxes.size(); ++i) {
    LinearForward(src, shard.View(weights->weights.view(), i), BiasRows(i), OutputsOf(shard, i, dst), 1);
  }
}

void LinearLayer::ForwardRowParallel(const TensorParallel& tp, const MicroBatch& batch, const TensorView& src,
                                     const TensorView& dst) const {
  ScopedModule module(name);
  const TensorView partial = tp.PartialOf(batch, dst);
  if (tp.alone()) {
    LinearForward(src, weights->view(), BiasRows(0), dst, tp.lanes());
    return;
  }
  LinearForward(src, weights->view(), TensorView{}, partial, tp.lanes());
  tp.Reduce(partial, dst);
  if (bias != nullptr) AddBias(dst, bias->view(), dst);
}

void LinearLayer::AccumulateGradients(const MicroBatch& batch, const TensorView& src,
                                      const TensorView& diff_dst, const TensorView& diff_bias) const {
  ScopedModule module(name);
  for (const LaneSegment& s : batch.segments) {
    const TensorView x = src.Slice(s.first, s.samples), dy = diff_dst.Slice(s.first, s.samples);
    const TokenSum order = weights->sum.Order(x.shape[1], 0);
    for (size_t i = 0; i < weights->shard.boxes.size(); ++i) {
      LinearBackwardWeights(x, OutputsOf(weights->shard, i, dy), weights->sum.Accumulator(i), order);
    }
    weights->sum.Advance(order, x.rows());
    if (s.ends_lane) weights->sum.FinishLane();
    if (bias == nullptr) continue;
    const TensorView db = diff_bias.Slice(s.first, s.samples);
    const TokenSum bias_order = bias->sum.Order(db.shape[1], 0);
    for (size_t i = 0; i < bias->shard.boxes.size(); ++i) {
      BiasBackward(OutputsOf(bias->shard, i, db), bias->sum.Accumulator(i), bias_order);
    }
    bias->sum.Advance(bias_order, db.rows());
    if (s.ends_lane) bias->sum.FinishLane();
  }
}

void NormLayer::Forward(const TensorView& src, const TensorView& dst, const TensorView& mean,
                        const TensorView& rstd) const {
  ScopedModule module(name);
  if (bias == nullptr) {
    RmsNormForward(src, gain->view(), dst, rstd, eps);
  } else {
    LayerNormForward(src, gain->view(), bias->view(), dst, mean, rstd, eps);
  }
}

void NormLayer::Backward(const TensorView& src, const TensorView& mean, const TensorView& rstd,
                         const TensorView& diff_dst, const TensorView& diff_skip,
                         const TensorView& diff_src) const {
  ScopedModule module(name);
  if (bias == nullptr) {
    RmsNormBackward(src, gain->view(), rstd, diff_dst, diff_skip, diff_src);
  } else {
    LayerNormBackward(src, gain->view(), mean, rstd, diff_dst, diff_skip, diff_src);
  }
}

void NormLayer::AccumulateGradients(const MicroBatch& batch, const TensorView& src, const TensorView& mean,
                                    const TensorView& rstd, const TensorView& diff_dst) const {
  ScopedModule module(name);
  for (const LaneSegment& s : batch.segments) {
    const TensorView x = src.Slice(s.first, s.samples), dy = diff_dst.Slice(s.first, s.samples);
    const TensorView r = rstd.Slice(s.first, s.samples);
    const TokenSum order = gain->sum.Order(x.shape[1], 0);
    if (bias == nullptr) {
      RmsNormBackwardGain(x, r, dy, gain->sum.Accumulator(), order);
    } else {
      LayerNormBackwardParameters(x, mean.Slice(s.first, s.samples), r, dy, gain->sum.Accumulator(),
                                  bias->sum.Accumulator(), order);
      bias->sum.Advance(order, x.rows());
      if (s.ends_lane) bias->sum.FinishLane();
    }
    gain->sum.Advance(order, x.rows());
    if (s.ends_lane) gain->sum.FinishLane();
  }
}

}  // namespace samestep
