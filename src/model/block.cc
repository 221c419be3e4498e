#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/rope/rope.h"
#include "kernels/sum/sum.h"

namespace samestep {

DecoderConfig LocalConfig(const DecoderConfig& config, int tensor_ranks) {
  DecoderConfig local = config;
  local.heads /= tensor_ranks;
  local.kv_heads /= tensor_ranks;
  local.intermediate /= tensor_ranks;
  return local;
}

BlockActivations BlockActivations::Make(const DecoderConfig& config, int tensor_ranks, int64_t b) {
  const DecoderConfig c = LocalConfig(config, tensor_ranks);
  const int64_t s = c.sequence, own = s / tensor_ranks;
  BlockActivations a;
  a.norm1 = Tensor::Empty({b, s, c.hidden});
  a.norm2 = Tensor::Empty({b, s, c.hidden});
  a.middle = Tensor::Empty({b, own, c.hidden});
  for (Tensor* t : {&a.mean1, &a.rstd1, &a.mean2, &a.rstd2}) *t = Tensor::Empty({b, own});
  a.qkv = Tensor::Empty({b, s, c.qkv_width()});
  a.attention = Tensor::Empty({b, s, c.query_width()});
  a.row_max = Tensor::Empty({b, c.heads, s});
  a.row_sum = Tensor::Empty({b, c.heads, s});
  a.up = Tensor::Empty({b, s, c.up_width()});
  a.activation = Tensor::Empty({b, s, c.intermediate});
  return a;
}

BlockScratch BlockScratch::Make(const DecoderConfig& config, int tensor_ranks, int64_t b) {
  const DecoderConfig c = LocalConfig(config, tensor_ranks);
  const int64_t s = c.sequence, own = s / tensor_ranks;
  BlockScratch t;
  t.branch = Tensor::Empty({b, own, c.hidden});
  t.diff_middle = Tensor::Empty({b, own, c.hidden});
  t.diff_activation = Tensor::Empty({b, s, c.intermediate});
  t.diff_up = Tensor::Empty({b, s, c.up_width()});
  t.diff_attention = Tensor::Empty({b, s, c.query_width()});
  t.diff_qkv = Tensor::Empty({b, s, c.qkv_width()});
  return t;
}

LinearLayer Block::MakeLinear(ParameterSet& set, bool held, const std::string& path, const std::string& name,
                              const Shape& shape, Cut cut) {
  const std::string full = path + "." + name;
  LinearLayer layer{name, set.Add({full + ".weight", shape, Initial::kNormal, cut}, held), nullptr};
  parameters_.push_back(layer.weights);
  if (local_.linear_biases) {
    // The bias of a row-parallel linear is added after the sum over ranks.
    const Cut bias_cut = cut == Cut::kInputs ? Cut::kReplicated : cut;
    layer.bias = set.Add({full + ".bias", {shape[0]}, Initial::kZeros, bias_cut}, held);
    parameters_.push_back(layer.bias);
  }
  return layer;
}

Block::Block(const DecoderConfig& c, int64_t index, ParameterSet& set, const TensorParallel& tp, bool held)
    : local_(LocalConfig(c, tp.ranks())), tp_(&tp) {
  scale_ = 1.0f / std::sqrt(static_cast<float>(c.head_size));
  const bool llama = c.family == DecoderFamily::kLlama;
  name_ = fmt::format("{}.{}", llama ? "model.layers" : "transformer.h", index);
  attention_name_ = llama ? "self_attn" : "attn";
  mlp_name_ = "mlp";
  const std::string attention = name_ + "." + attention_name_, mlp = name_ + "." + mlp_name_;
  norm1_ = MakeNorm(c, set, held, name_, llama ? "input_layernorm" : "ln_1");
  norm2_ = MakeNorm(c, set, held, name_, llama ? "post_attention_layernorm" : "ln_2");
  for (const NormLayer* norm : {&norm1_, &norm2_}) {
    parameters_.push_back(norm->gain);
    if (norm->bias != nullptr) parameters_.push_back(norm->bias);
  }
  const int64_t h = c.hidden, q = c.query_width(), k = c.key_width(), i = c.intermediate;
  if (llama) {
    qkv_.push_back(MakeLinear(set, held, attention, "q_proj", {q, h}, Cut::kOutputs));
    qkv_.push_back(MakeLinear(set, held, attention, "k_proj", {k, h}, Cut::kOutputs));
    qkv_.push_back(MakeLinear(set, held, attention, "v_proj", {k, h}, Cut::kOutputs));
  } else {
    qkv_.push_back(MakeLinear(set, held, attention, "c_attn", {c.qkv_width(), h}, Cut::kFusedQkv));
  }
  o_ = MakeLinear(set, held, attention, llama ? "o_proj" : "c_proj", {h, q}, Cut::kInputs);
  if (c.mlp == MlpKind::kSwiglu) {
    up_.push_back(MakeLinear(set, held, mlp, "gate_proj", {i, h}, Cut::kOutputs));
    up_.push_back(MakeLinear(set, held, mlp, "up_proj", {i, h}, Cut::kOutputs));
  } else {
    up_.push_back(MakeLinear(set, held, mlp, llama ? "up_proj" : "c_fc", {i, h}, Cut::kOutputs));
  }
  down_ = MakeLinear(set, held, mlp, llama ? "down_proj" : "c_proj", {h, i}, Cut::kInputs);
}

struct Block::Projections {
  TensorView q, k, v;
};

Block::Projections Block::Split(const TensorView& qkv) const {
  const int64_t q = local_.query_width(), k = local_.key_width();
  return {tp_->Columns(qkv.Columns(0, q)), tp_->Columns(qkv.Columns(q, k)),
          tp_->Columns(qkv.Columns(q + k, k))};
}

struct Block::UpParts {
  TensorView gate, up;
};

Block::UpParts Block::SplitUp(const TensorView& up) const {
  if (local_.mlp != MlpKind::kSwiglu) return {TensorView{}, tp_->Columns(up)};
  const int64_t i = local_.intermediate;
  return {tp_->Columns(up.Columns(0, i)), tp_->Columns(up.Columns(i, i))};
}

AttentionShape Block::Attention() const {
  return {static_cast<int>(local_.heads), static_cast<int>(local_.kv_heads),
          static_cast<int>(local_.head_size), local_.context_lanes, scale_};
}

// Own tokens are normalised, all tokens gathered into `all`.
void Block::ForwardNorm(const MicroBatch& batch, const NormLayer& norm, const TensorView& x,
                        const Tensor& all, const Tensor& mean, const Tensor& rstd,
                        BlockScratch& scratch) const {
  const TensorView own = batch.OwnTokens(tp_->alone() ? all : scratch.branch);
  norm.Forward(x, own, batch.OwnTokens(mean), batch.OwnTokens(rstd));
  tp_->Gather(batch, own, all);
}

void Block::Forward(const MicroBatch& batch, const TensorView& x, BlockActivations& a, BlockScratch& scratch,
                    const RopeRows& rope, const TensorView& out) const {
  ScopedModule module(name_);
  const TensorView branch = batch.OwnTokens(scratch.branch), middle = batch.OwnTokens(a.middle);
  ForwardNorm(batch, norm1_, x, a.norm1, a.mean1, a.rstd1, scratch);
  ForwardAttention(batch, a, rope, branch);
  Add(x, branch, middle);
  ForwardNorm(batch, norm2_, middle, a.norm2, a.mean2, a.rstd2, scratch);
  ForwardMlp(batch, a, branch);
  Add(middle, branch, out);
}

void Block::ForwardAttention(const MicroBatch& batch, BlockActivations& a, const RopeRows& rope,
                             const TensorView& dst) const {
  ScopedModule module(attention_name_);
  const TensorView norm = batch.AllTokens(a.norm1), qkv = batch.AllTokens(a.qkv);
  const TensorView attention = tp_->Columns(batch.AllTokens(a.attention));
  const Projections p = Split(qkv);
  if (qkv_.size() == 1) {
    qkv_[0].Forward(norm, qkv);
  } else {
    qkv_[0].Forward(norm, p.q);
    qkv_[1].Forward(norm, p.k);
    qkv_[2].Forward(norm, p.v);
  }
  if (rope.cos.present()) {
    RopeForward(p.q, rope.cos, rope.sin, static_cast<int>(local_.head_size));
    RopeForward(p.k, rope.cos, rope.sin, static_cast<int>(local_.head_size));
  }
  AttentionForward(p.q, p.k, p.v, attention, tp_->Heads(batch.Heads(a.row_max)),
                   tp_->Heads(batch.Heads(a.row_sum)), Attention());
  o_.ForwardRowParallel(*tp_, batch, attention, dst);
}

void Block::ForwardMlp(const MicroBatch& batch, BlockActivations& a, const TensorView& dst) const {
  ScopedModule module(mlp_name_);
  const TensorView norm = batch.AllTokens(a.norm2);
  const TensorView activation = tp_->Columns(batch.AllTokens(a.activation));
  const UpParts parts = SplitUp(batch.AllTokens(a.up));
  if (local_.mlp == MlpKind::kSwiglu) {
    up_[0].Forward(norm, parts.gate);
    up_[1].Forward(norm, parts.up);
    SwigluForward(parts.gate, parts.up, activation);
  } else {
    up_[0].Forward(norm, parts.up);
    GeluForward(parts.up, activation, local_.mlp == MlpKind::kGelu ? GeluForm::kErf : GeluForm::kTanh);
  }
  down_.ForwardRowParallel(*tp_, batch, activation, dst);
}

void Block::Backward(const MicroBatch& batch, const TensorView& x, const BlockActivations& a,
                     BlockScratch& scratch, const RopeRows& rope, const TensorView& diff_out,
                     const TensorView& diff_x) const {
  ScopedModule module(name_);
  const TensorView diff_norm = batch.OwnTokens(scratch.branch);
  const TensorView diff_middle = batch.OwnTokens(scratch.diff_middle), middle = batch.OwnTokens(a.middle);
  const TensorView mean1 = batch.OwnTokens(a.mean1), rstd1 = batch.OwnTokens(a.rstd1);
  const TensorView mean2 = batch.OwnTokens(a.mean2), rstd2 = batch.OwnTokens(a.rstd2);
  BackwardMlp(batch, a, scratch, diff_out, diff_norm);
  norm2_.AccumulateGradients(batch, middle, mean2, rstd2, diff_norm);
  norm2_.Backward(middle, mean2, rstd2, diff_norm, diff_out, diff_middle);
  BackwardAttention(batch, a, scratch, rope, diff_norm);
  norm1_.AccumulateGradients(batch, x, mean1, rstd1, diff_norm);
  norm1_.Backward(x, mean1, rstd1, diff_norm, diff_middle, diff_x);
}

void Block::BackwardMlp(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                        const TensorView& diff_out, const TensorView& diff_norm) const {
  ScopedModule module(mlp_name_);
  const TensorView all_diff_out = tp_->Gather(batch, diff_out, tp_->all_tokens());
  const TensorView activation = tp_->Columns(batch.AllTokens(a.activation));
  const TensorView diff_activation = tp_->Columns(batch.AllTokens(scratch.diff_activation));
  const LinearFanIn down{all_diff_out, down_.weights->view()};
  LinearBackwardData({&down, 1}, diff_activation, 1);
  down_.AccumulateGradients(batch, activation, all_diff_out, diff_out);
  const UpParts up = SplitUp(batch.AllTokens(a.up)), diff = SplitUp(batch.AllTokens(scratch.diff_up));
  const TensorView norm = batch.AllTokens(a.norm2), partial = tp_->PartialOf(batch, diff_norm);
  if (local_.mlp == MlpKind::kSwiglu) {
    SwigluBackward(up.gate, up.up, diff_activation, diff.gate, diff.up);
    up_[0].AccumulateGradients(batch, norm, diff.gate, diff.gate);
    up_[1].AccumulateGradients(batch, norm, diff.up, diff.up);
    const LinearFanIn fan_in[] = {{diff.gate, up_[0].weights->view()}, {diff.up, up_[1].weights->view()}};
    LinearBackwardData(fan_in, partial, tp_->lanes());
  } else {
    GeluBackward(up.up, diff_activation, diff.up,
                 local_.mlp == MlpKind::kGelu ? GeluForm::kErf : GeluForm::kTanh);
    up_[0].AccumulateGradients(batch, norm, diff.up, diff.up);
    const LinearFanIn fan_in{diff.up, up_[0].weights->view()};
    LinearBackwardData({&fan_in, 1}, partial, tp_->lanes());
  }
  tp_->Reduce(partial, diff_norm);
}

void Block::BackwardAttention(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                              const RopeRows& rope, const TensorView& diff_norm) const {
  ScopedModule module(attention_name_);
  const TensorView diff_middle = batch.OwnTokens(scratch.diff_middle);
  const TensorView all_diff_middle = tp_->Gather(batch, diff_middle, tp_->all_tokens());
  const TensorView attention = tp_->Columns(batch.AllTokens(a.attention));
  const TensorView diff_attention = tp_->Columns(batch.AllTokens(scratch.diff_attention));
  const TensorView diff_qkv = batch.AllTokens(scratch.diff_qkv), norm = batch.AllTokens(a.norm1);
  const LinearFanIn o{all_diff_middle, o_.weights->view()};
  LinearBackwardData({&o, 1}, diff_attention, 1);
  o_.AccumulateGradients(batch, attention, all_diff_middle, diff_middle);
  const Projections p = Split(batch.AllTokens(a.qkv)), d = Split(diff_qkv);
  AttentionBackward(p.q, p.k, p.v, attention, tp_->Heads(batch.Heads(a.row_max)),
                    tp_->Heads(batch.Heads(a.row_sum)), diff_attention, d.q, d.k, d.v, Attention());
  if (rope.cos.present()) {
    RopeBackward(d.q, rope.cos, rope.sin, static_cast<int>(local_.head_size));
    RopeBackward(d.k, rope.cos, rope.sin, static_cast<int>(local_.head_size));
  }
  // A fused projection counts as q, k and v, one after another.
  std::vector<LinearFanIn> fan_in;
  const TensorView parts[] = {d.q, d.k, d.v};
  int64_t row = 0;
  for (size_t i = 0; i < 3; ++i) {
    const bool fused = qkv_.size() == 1;
    const Parameter& w = *qkv_[fused ? 0 : i].weights;
    fan_in.push_back({parts[i], fused ? w.Rows(row, parts[i].columns()) : w.view()});
    row += parts[i].columns();
    if (!fused) qkv_[i].AccumulateGradients(batch, norm, parts[i], parts[i]);
  }
  if (qkv_.size() == 1) qkv_[0].AccumulateGradients(batch, norm, diff_qkv, diff_qkv);
  const TensorView partial = tp_->PartialOf(batch, diff_norm);
  LinearBackwardData(fan_in, partial, tp_->lanes());
  tp_->Reduce(partial, diff_norm);
}

}  // namespace samestep
