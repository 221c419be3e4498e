#include "model/linear_layer.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/rms_norm/rms_norm.h"

namespace samestep {
namespace {

TensorView OptionalWeights(const Parameter* p) { return p == nullptr ? TensorView{} : p->weights.view(); }

}  // namespace

int TokenLanes(const DecoderConfig& c, bool replicated) {
  return c.context_lanes * (replicated ? c.tensor_lanes : 1);
}

NormLayer MakeNorm(const DecoderConfig& c, ParameterSet& set, const std::string& path,
                   const std::string& name) {
  const std::string full = path + "." + name;
  NormLayer layer{name,
                  set.Add(full + ".weight", {c.hidden}, Initial::kOnes, TokenLanes(c, true), c.data_lanes),
                  nullptr, c.norm_eps};
  if (c.family == DecoderFamily::kGpt2) {
    layer.bias = set.Add(full + ".bias", {c.hidden}, Initial::kZeros, TokenLanes(c, true), c.data_lanes);
  }
  return layer;
}

void LinearLayer::Forward(const TensorView& src, const TensorView& dst, int lanes) const {
  ScopedModule module(name);
  LinearForward(src, weights->weights.view(), OptionalWeights(bias), dst, lanes);
}

void LinearLayer::AccumulateGradients(const MicroBatch& batch, const TensorView& src,
                                      const TensorView& diff_dst) const {
  ScopedModule module(name);
  for (const LaneSegment& s : batch.segments) {
    const TensorView x = src.Slice(s.first, s.samples), dy = diff_dst.Slice(s.first, s.samples);
    const TokenSum order = weights->sum.Order(batch.sequence(), 0);
    LinearBackwardWeights(x, dy, weights->sum.Accumulator(), order);
    weights->sum.Advance(order, x.rows());
    if (s.ends_lane) weights->sum.FinishLane();
    if (bias == nullptr) continue;
    const TokenSum bias_order = bias->sum.Order(batch.sequence(), 0);
    BiasBackward(dy, bias->sum.Accumulator(), bias_order);
    bias->sum.Advance(bias_order, x.rows());
    if (s.ends_lane) bias->sum.FinishLane();
  }
}

void NormLayer::Forward(const TensorView& src, const TensorView& dst, const TensorView& mean,
                        const TensorView& rstd) const {
  ScopedModule module(name);
  if (bias == nullptr) {
    RmsNormForward(src, gain->weights.view(), dst, rstd, eps);
  } else {
    LayerNormForward(src, gain->weights.view(), bias->weights.view(), dst, mean, rstd, eps);
  }
}

void NormLayer::Backward(const TensorView& src, const TensorView& mean, const TensorView& rstd,
                         const TensorView& diff_dst, const TensorView& diff_skip,
                         const TensorView& diff_src) const {
  ScopedModule module(name);
  if (bias == nullptr) {
    RmsNormBackward(src, gain->weights.view(), rstd, diff_dst, diff_skip, diff_src);
  } else {
    LayerNormBackward(src, gain->weights.view(), mean, rstd, diff_dst, diff_skip, diff_src);
  }
}

void NormLayer::AccumulateGradients(const MicroBatch& batch, const TensorView& src, const TensorView& mean,
                                    const TensorView& rstd, const TensorView& diff_dst) const {
  ScopedModule module(name);
  for (const LaneSegment& s : batch.segments) {
    const TensorView x = src.Slice(s.first, s.samples), dy = diff_dst.Slice(s.first, s.samples);
    const TensorView r = rstd.Slice(s.first, s.samples);
    const TokenSum order = gain->sum.Order(batch.sequence(), 0);
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
