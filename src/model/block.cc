#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/linear/linear.h"
#include "kernels/rope/rope.h"
#include "kernels/sum/sum.h"

namespace samestep {
namespace {

LinearLayer MakeLinear(const DecoderConfig& c, ParameterSet& set, const std::string& path,
                       const std::string& name, int64_t out, int64_t in, bool row_parallel) {
  const std::string full = path + "." + name;
  LinearLayer layer{
      name, set.Add(full + ".weight", {out, in}, Initial::kNormal, TokenLanes(c, false), c.data_lanes),
      nullptr};
  if (c.linear_biases) {
    layer.bias = set.Add(full + ".bias", {out}, Initial::kZeros, TokenLanes(c, row_parallel), c.data_lanes);
  }
  return layer;
}

}  // namespace

BlockActivations BlockActivations::Make(const DecoderConfig& c, int64_t b, int64_t s) {
  BlockActivations a;
  a.norm1 = Tensor::Empty({b, s, c.hidden});
  a.norm2 = Tensor::Empty({b, s, c.hidden});
  a.middle = Tensor::Empty({b, s, c.hidden});
  for (Tensor* t : {&a.mean1, &a.rstd1, &a.mean2, &a.rstd2}) *t = Tensor::Empty({b, s});
  a.qkv = Tensor::Empty({b, s, c.qkv_width()});
  a.attention = Tensor::Empty({b, s, c.query_width()});
  a.row_max = Tensor::Empty({b, c.heads, s});
  a.row_sum = Tensor::Empty({b, c.heads, s});
  a.up = Tensor::Empty({b, s, c.up_width()});
  a.activation = Tensor::Empty({b, s, c.intermediate});
  return a;
}

BlockScratch BlockScratch::Make(const DecoderConfig& c, int64_t b, int64_t s) {
  BlockScratch t;
  t.branch = Tensor::Empty({b, s, c.hidden});
  t.diff_middle = Tensor::Empty({b, s, c.hidden});
  t.diff_activation = Tensor::Empty({b, s, c.intermediate});
  t.diff_up = Tensor::Empty({b, s, c.up_width()});
  t.diff_attention = Tensor::Empty({b, s, c.query_width()});
  t.diff_qkv = Tensor::Empty({b, s, c.qkv_width()});
  return t;
}

Block::Block(const DecoderConfig& c, int64_t index, ParameterSet& set) : config_(c) {
  scale_ = 1.0f / std::sqrt(static_cast<float>(c.head_size));
  const bool llama = c.family == DecoderFamily::kLlama;
  name_ = fmt::format("{}.{}", llama ? "model.layers" : "transformer.h", index);
  attention_name_ = llama ? "self_attn" : "attn";
  mlp_name_ = "mlp";
  const std::string attention = name_ + "." + attention_name_, mlp = name_ + "." + mlp_name_;
  norm1_ = MakeNorm(c, set, name_, llama ? "input_layernorm" : "ln_1");
  norm2_ = MakeNorm(c, set, name_, llama ? "post_attention_layernorm" : "ln_2");
  if (llama) {
    qkv_.push_back(MakeLinear(c, set, attention, "q_proj", c.query_width(), c.hidden, false));
    qkv_.push_back(MakeLinear(c, set, attention, "k_proj", c.key_width(), c.hidden, false));
    qkv_.push_back(MakeLinear(c, set, attention, "v_proj", c.key_width(), c.hidden, false));
  } else {
    qkv_.push_back(MakeLinear(c, set, attention, "c_attn", c.qkv_width(), c.hidden, false));
  }
  o_ = MakeLinear(c, set, attention, llama ? "o_proj" : "c_proj", c.hidden, c.query_width(), true);
  if (c.mlp == MlpKind::kSwiglu) {
    up_.push_back(MakeLinear(c, set, mlp, "gate_proj", c.intermediate, c.hidden, false));
    up_.push_back(MakeLinear(c, set, mlp, "up_proj", c.intermediate, c.hidden, false));
  } else {
    up_.push_back(MakeLinear(c, set, mlp, llama ? "up_proj" : "c_fc", c.intermediate, c.hidden, false));
  }
  down_ = MakeLinear(c, set, mlp, llama ? "down_proj" : "c_proj", c.hidden, c.intermediate, true);
}

struct Block::Projections {
  TensorView q, k, v;
};

Block::Projections Block::Split(const TensorView& qkv) const {
  const int64_t q = config_.query_width(), k = config_.key_width();
  return {qkv.Columns(0, q), qkv.Columns(q, k), qkv.Columns(q + k, k)};
}

void Block::Forward(const MicroBatch& batch, const TensorView& x, BlockActivations& a, BlockScratch& scratch,
                    const TensorView& cos, const TensorView& sin, const TensorView& out) const {
  ScopedModule module(name_);
  const TensorView branch = batch.Part(scratch.branch), middle = batch.Part(a.middle);
  norm1_.Forward(x, batch.Part(a.norm1), batch.Part(a.mean1), batch.Part(a.rstd1));
  ForwardAttention(batch, a, cos, sin, branch);
  Add(x, branch, middle);
  norm2_.Forward(middle, batch.Part(a.norm2), batch.Part(a.mean2), batch.Part(a.rstd2));
  ForwardMlp(batch, a, branch);
  Add(middle, branch, out);
}

void Block::ForwardAttention(const MicroBatch& batch, BlockActivations& a, const TensorView& cos,
                             const TensorView& sin, const TensorView& dst) const {
  ScopedModule module(attention_name_);
  const TensorView norm = batch.Part(a.norm1), qkv = batch.Part(a.qkv), attention = batch.Part(a.attention);
  const Projections p = Split(qkv);
  if (qkv_.size() == 1) {
    qkv_[0].Forward(norm, qkv, 1);
  } else {
    qkv_[0].Forward(norm, p.q, 1);
    qkv_[1].Forward(norm, p.k, 1);
    qkv_[2].Forward(norm, p.v, 1);
  }
  if (cos.present()) {
    RopeForward(p.q, cos, sin, static_cast<int>(config_.head_size));
    RopeForward(p.k, cos, sin, static_cast<int>(config_.head_size));
  }
  const AttentionShape shape{static_cast<int>(config_.heads), static_cast<int>(config_.kv_heads),
                             static_cast<int>(config_.head_size), config_.context_lanes, scale_};
  AttentionForward(p.q, p.k, p.v, attention, batch.HeadsPart(a.row_max), batch.HeadsPart(a.row_sum), shape);
  o_.Forward(attention, dst, config_.tensor_lanes);
}

void Block::ForwardMlp(const MicroBatch& batch, BlockActivations& a, const TensorView& dst) const {
  ScopedModule module(mlp_name_);
  const TensorView norm = batch.Part(a.norm2), up = batch.Part(a.up), activation = batch.Part(a.activation);
  if (config_.mlp == MlpKind::kSwiglu) {
    const int64_t i = config_.intermediate;
    up_[0].Forward(norm, up.Columns(0, i), 1);
    up_[1].Forward(norm, up.Columns(i, i), 1);
    SwigluForward(up.Columns(0, i), up.Columns(i, i), activation);
  } else {
    up_[0].Forward(norm, up, 1);
    GeluForward(up, activation, config_.mlp == MlpKind::kGelu ? GeluForm::kErf : GeluForm::kTanh);
  }
  down_.Forward(activation, dst, config_.tensor_lanes);
}

void Block::Backward(const MicroBatch& batch, const TensorView& x, const BlockActivations& a,
                     BlockScratch& scratch, const TensorView& cos, const TensorView& sin,
                     const TensorView& diff_out, const TensorView& diff_x) const {
  ScopedModule module(name_);
  const TensorView diff_norm = batch.Part(scratch.branch), diff_middle = batch.Part(scratch.diff_middle);
  const TensorView middle = batch.Part(a.middle);
  const TensorView mean1 = batch.Part(a.mean1), rstd1 = batch.Part(a.rstd1);
  const TensorView mean2 = batch.Part(a.mean2), rstd2 = batch.Part(a.rstd2);
  BackwardMlp(batch, a, scratch, diff_out, diff_norm);
  norm2_.AccumulateGradients(batch, middle, mean2, rstd2, diff_norm);
  norm2_.Backward(middle, mean2, rstd2, diff_norm, diff_out, diff_middle);
  BackwardAttention(batch, a, scratch, cos, sin, diff_norm);
  norm1_.AccumulateGradients(batch, x, mean1, rstd1, diff_norm);
  norm1_.Backward(x, mean1, rstd1, diff_norm, diff_middle, diff_x);
}

void Block::BackwardMlp(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                        const TensorView& diff_out, const TensorView& diff_norm) const {
  ScopedModule module(mlp_name_);
  const TensorView up = batch.Part(a.up), activation = batch.Part(a.activation), norm = batch.Part(a.norm2);
  const TensorView diff_activation = batch.Part(scratch.diff_activation),
                   diff_up = batch.Part(scratch.diff_up);
  const LinearFanIn down{diff_out, down_.weights->weights.view()};
  LinearBackwardData({&down, 1}, diff_activation, 1);
  down_.AccumulateGradients(batch, activation, diff_out);
  if (config_.mlp == MlpKind::kSwiglu) {
    const int64_t i = config_.intermediate;
    const TensorView diff_gate_part = diff_up.Columns(0, i), diff_up_part = diff_up.Columns(i, i);
    SwigluBackward(up.Columns(0, i), up.Columns(i, i), diff_activation, diff_gate_part, diff_up_part);
    up_[0].AccumulateGradients(batch, norm, diff_gate_part);
    up_[1].AccumulateGradients(batch, norm, diff_up_part);
    const LinearFanIn fan_in[] = {{diff_gate_part, up_[0].weights->weights.view()},
                                  {diff_up_part, up_[1].weights->weights.view()}};
    LinearBackwardData(fan_in, diff_norm, config_.tensor_lanes);
  } else {
    GeluBackward(up, diff_activation, diff_up,
                 config_.mlp == MlpKind::kGelu ? GeluForm::kErf : GeluForm::kTanh);
    up_[0].AccumulateGradients(batch, norm, diff_up);
    const LinearFanIn fan_in{diff_up, up_[0].weights->weights.view()};
    LinearBackwardData({&fan_in, 1}, diff_norm, config_.tensor_lanes);
  }
}

void Block::BackwardAttention(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                              const TensorView& cos, const TensorView& sin,
                              const TensorView& diff_norm) const {
  ScopedModule module(attention_name_);
  const TensorView diff_middle = batch.Part(scratch.diff_middle), attention = batch.Part(a.attention);
  const TensorView diff_attention = batch.Part(scratch.diff_attention), norm = batch.Part(a.norm1);
  const TensorView diff_qkv = batch.Part(scratch.diff_qkv);
  const LinearFanIn o{diff_middle, o_.weights->weights.view()};
  LinearBackwardData({&o, 1}, diff_attention, 1);
  o_.AccumulateGradients(batch, attention, diff_middle);
  const Projections p = Split(batch.Part(a.qkv)), d = Split(diff_qkv);
  const AttentionShape shape{static_cast<int>(config_.heads), static_cast<int>(config_.kv_heads),
                             static_cast<int>(config_.head_size), config_.context_lanes, scale_};
  AttentionBackward(p.q, p.k, p.v, attention, batch.HeadsPart(a.row_max), batch.HeadsPart(a.row_sum),
                    diff_attention, d.q, d.k, d.v, shape);
  if (cos.present()) {
    RopeBackward(d.q, cos, sin, static_cast<int>(config_.head_size));
    RopeBackward(d.k, cos, sin, static_cast<int>(config_.head_size));
  }
  // A fused projection counts as q, k and v, one after another.
  std::vector<LinearFanIn> fan_in;
  const TensorView parts[] = {d.q, d.k, d.v};
  int64_t row = 0;
  for (size_t i = 0; i < 3; ++i) {
    const bool fused = qkv_.size() == 1;
    const TensorView w = qkv_[fused ? 0 : i].weights->weights.view();
    fan_in.push_back({parts[i], fused ? w.Slice(row, parts[i].columns()) : w});
    row += parts[i].columns();
    if (!fused) qkv_[i].AccumulateGradients(batch, norm, parts[i]);
  }
  if (qkv_.size() == 1) qkv_[0].AccumulateGradients(batch, norm, diff_qkv);
  LinearBackwardData(fan_in, diff_norm, config_.tensor_lanes);
}

}  // namespace samestep
