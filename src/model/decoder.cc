#include "model/decoder.h"

#include <algorithm>

#include "kernels/embedding/embedding.h"
#include "kernels/sum/sum.h"

namespace samestep {

Decoder::Decoder(const DecoderConfig& c, int64_t max_samples) : config_(c) {
  const bool llama = c.family == DecoderFamily::kLlama;
  embedding_name_ = llama ? "model.embed_tokens" : "transformer.wte";
  embedding_ = parameters_.Add(embedding_name_ + ".weight", {c.vocab, c.hidden}, Initial::kNormal,
                               c.context_lanes, c.data_lanes);
  if (!llama) {
    position_name_ = "transformer.wpe";
    positions_ = parameters_.Add(position_name_ + ".weight", {c.sequence, c.hidden}, Initial::kNormal,
                                 c.context_lanes * c.tensor_lanes, c.data_lanes);
  } else {
    cos_ = Tensor::Empty({c.sequence, c.head_size / 2});
    sin_ = Tensor::Empty({c.sequence, c.head_size / 2});
    RopeTable(0, c.sequence, c.head_size, c.rope_base, cos_.f32(), sin_.f32());
  }
  for (int64_t i = 0; i < c.layers; ++i) blocks_.emplace_back(c, i, parameters_);
  final_norm_path_ = llama ? "model" : "transformer";
  final_norm_ = MakeNorm(c, parameters_, final_norm_path_, llama ? "norm" : "ln_f");
  Parameter* output = embedding_;
  if (c.tied_output) {
    embedding_->tied = true;
    embedding_->other_sum = GradientSum(embedding_->shape(), c.context_lanes, c.data_lanes);
    embedding_->tied_gradient = Tensor::Empty(embedding_->shape());
  } else {
    output = parameters_.Add("lm_head.weight", {c.vocab, c.hidden}, Initial::kNormal, c.context_lanes,
                             c.data_lanes);
  }
  const int64_t b = max_samples, s = c.sequence;
  head_ = std::make_unique<OutputHead>(c, output, b, s);
  for (int64_t i = 0; i <= c.layers; ++i) x_.push_back(Tensor::Empty({b, s, c.hidden}));
  const int64_t kept = c.recompute_layers ? std::min<int64_t>(1, c.layers) : c.layers;
  for (int64_t i = 0; i < kept; ++i) activations_.push_back(BlockActivations::Make(c, b, s));
  scratch_ = BlockScratch::Make(c, b, s);
  final_ = Tensor::Empty({b, s, c.hidden});
  final_mean_ = Tensor::Empty({b, s});
  final_rstd_ = Tensor::Empty({b, s});
  diff_x_ = Tensor::Empty({b, s, c.hidden});
  diff_final_ = Tensor::Empty({b, s, c.hidden});
}

TensorView Decoder::CosOf(int64_t tokens) const {
  return cos_.empty() ? TensorView{} : cos_.view().Slice(0, tokens);
}
TensorView Decoder::SinOf(int64_t tokens) const {
  return sin_.empty() ? TensorView{} : sin_.view().Slice(0, tokens);
}

void Decoder::BeginStep() {
  for (Parameter* p : parameters_.InOrder()) {
    p->sum.Begin();
    if (p->tied) p->other_sum.Begin();
  }
}

void Decoder::Embed(const MicroBatch& batch, const TensorView& dst) const {
  ScopedModule module(embedding_name_);
  EmbeddingForward(batch.tokens, embedding_->weights.view(),
                   positions_ == nullptr ? TensorView{} : positions_->weights.view(), dst);
}

TensorView Decoder::ForwardBlocks(const MicroBatch& batch, bool keep) {
  Embed(batch, batch.Part(x_[0]));
  const int64_t tokens = batch.sequence();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    // Without a backward pass two buffers in turn are enough, but the memory is there anyway.
    blocks_[i].Forward(batch, batch.Part(x_[i]), ActivationsOf(keep ? i : 0), scratch_, CosOf(tokens),
                       SinOf(tokens), batch.Part(x_[i + 1]));
  }
  return batch.Part(x_.back());
}

TensorView Decoder::FinalNorm(const MicroBatch& batch, const TensorView& x) {
  ScopedModule module(final_norm_path_);
  final_norm_.Forward(x, batch.Part(final_), batch.Part(final_mean_), batch.Part(final_rstd_));
  return batch.Part(final_);
}

void Decoder::ForwardBackward(const MicroBatch& batch, float target_weight, const TensorView& loss_state) {
  const TensorView diff_x = batch.Part(diff_x_), diff_final = batch.Part(diff_final_);
  TensorView x;
  {
    ScopedPhase phase(Phase::kForward);
    x = ForwardBlocks(batch, true);
    head_->ForwardBackward(batch, FinalNorm(batch, x), target_weight, diff_final, loss_state);
  }
  ScopedPhase phase(Phase::kBackward);
  {
    ScopedModule module(final_norm_path_);
    const TensorView mean = batch.Part(final_mean_), rstd = batch.Part(final_rstd_);
    final_norm_.AccumulateGradients(batch, x, mean, rstd, diff_final);
    final_norm_.Backward(x, mean, rstd, diff_final, TensorView{}, diff_x);
  }
  const int64_t tokens = batch.sequence();
  for (size_t i = blocks_.size(); i-- > 0;) {
    const TensorView input = batch.Part(x_[i]);
    if (config_.recompute_layers) {
      ScopedPhase recompute(Phase::kRecompute);
      blocks_[i].Forward(batch, input, ActivationsOf(i), scratch_, CosOf(tokens), SinOf(tokens),
                         batch.Part(x_[i + 1]));
    }
    blocks_[i].Backward(batch, input, ActivationsOf(i), scratch_, CosOf(tokens), SinOf(tokens), diff_x,
                        diff_x);
  }
  BackwardEmbedding(batch, diff_x);
}

void Decoder::BackwardEmbedding(const MicroBatch& batch, const TensorView& diff) const {
  GradientSum& sum = embedding_->tied ? embedding_->other_sum : embedding_->sum;
  for (const LaneSegment& s : batch.segments) {
    const TensorView tokens = batch.tokens.Slice(s.first, s.samples), dx = diff.Slice(s.first, s.samples);
    {
      ScopedModule module(embedding_name_);
      const TokenSum order = sum.Order(batch.sequence(), 0);
      EmbeddingBackward(tokens, dx, sum.Accumulator(), order);
      sum.Advance(order, tokens.elements());
      if (s.ends_lane) sum.FinishLane();
    }
    if (positions_ == nullptr) continue;
    ScopedModule module(position_name_);
    const TokenSum order = positions_->sum.Order(batch.sequence(), 0);
    PositionBackward(dx, positions_->sum.Accumulator(), order);
    positions_->sum.Advance(order, tokens.elements());
    if (s.ends_lane) positions_->sum.FinishLane();
  }
}

void Decoder::FinishGradients() {
  ScopedPhase phase(Phase::kReduce);
  for (Parameter* p : parameters_.InOrder()) {
    ScopedModule module(p->name);
    p->gradient = p->sum.Finish();
    if (!p->tied) continue;
    Add(p->gradient, p->other_sum.Finish(), p->tied_gradient.view());
    p->gradient = p->tied_gradient.view();
  }
}

void Decoder::Evaluate(const MicroBatch& batch, const TensorView& loss_state) {
  ScopedPhase phase(Phase::kEvaluate);
  const TensorView x = ForwardBlocks(batch, false);
  head_->Forward(batch, FinalNorm(batch, x), loss_state);
}

void Decoder::NextTokenLogits(std::span<const int32_t> tokens, const TensorView& logits) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  SAMESTEP_CHECK(n >= 1 && n <= config_.sequence);
  Tensor ids = Tensor::Empty({1, n}, DType::kI32);
  std::copy(tokens.begin(), tokens.end(), ids.i32());
  ScopedPhase phase(Phase::kEvaluate);
  const MicroBatch batch = MakeMicroBatch(0, 1, 1, ids.view(), ids.view());
  const TensorView hidden = FinalNorm(batch, ForwardBlocks(batch, false));
  head_->Logits(hidden.Reshaped({n, config_.hidden}).Slice(n - 1, 1), logits.Reshaped({1, config_.vocab}));
}

}  // namespace samestep
