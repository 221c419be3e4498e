#include "model/decoder.h"

#include <algorithm>

namespace samestep {
namespace {

constexpr int kFirstPipelineTag = 16;

bool HasLayer(const ProcessGrid& grid, int64_t layer, const LayerCosts& costs) {
  for (int chunk = 0; chunk < grid.layout().chunks; ++chunk) {
    const Range held = LayersOf(grid.layout(), grid.place().pipeline, chunk, costs);
    if (layer >= held.first && layer < held.end()) return true;
  }
  return false;
}

}  // namespace

Decoder::Decoder(const DecoderConfig& c, int64_t max_samples, ProcessGrid& grid, int64_t micro_batches)
    : config_(c),
      grid_(&grid),
      parameters_(c, grid),
      tp_(grid, c, max_samples),
      reducer_(grid, parameters_),
      embedding_(c, parameters_, tp_, grid.first_stage(), grid.last_stage()) {
  const bool llama = c.family == DecoderFamily::kLlama;
  if (llama) {
    cos_ = Tensor::Empty({c.sequence, c.head_size / 2});
    sin_ = Tensor::Empty({c.sequence, c.head_size / 2});
    RopeTable(0, c.sequence, c.head_size, c.rope_base, cos_.f32(), sin_.f32());
  }
  MakeChunks(max_samples, micro_batches);
  final_norm_path_ = llama ? "model" : "transformer";
  final_norm_ = MakeNorm(c, parameters_, grid.last_stage(), final_norm_path_, llama ? "norm" : "ln_f");
  Parameter* output = embedding_.tokens();
  if (!c.tied_output) {
    output = parameters_.Add({"lm_head.weight", {c.vocab, c.hidden}, Initial::kNormal, Cut::kVocabulary},
                             grid.last_stage());
  }
  if (grid.last_stage()) head_ = std::make_unique<OutputHead>(c, output, tp_, max_samples);
  const int64_t own = c.sequence / tp_.ranks();
  if (c.recompute_layers) recomputed_ = BlockActivations::Make(c, tp_.ranks(), max_samples);
  scratch_ = BlockScratch::Make(c, tp_.ranks(), max_samples);
  if (grid.last_stage()) final_ = Tensor::Empty({max_samples, own, c.hidden});
}

void Decoder::MakeChunks(int64_t max_samples, int64_t micro_batches) {
  const Layout& layout = grid_->layout();
  const int rank = grid_->place().pipeline;
  for (int i = 0; i < layout.chunks; ++i) {
    Chunk& chunk = chunks_.emplace_back();
    chunk.number = i * layout.pipeline + rank;
    chunk.first = chunk.number == 0;
    chunk.last = chunk.number == layout.chunks * layout.pipeline - 1;
  }
  // Every rank knows every parameter's name and shape.
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const bool held = HasLayer(*grid_, layer, LayerCostsOf(config_));
    Block block(config_, layer, parameters_, tp_, held);
    for (int i = 0; held && i < layout.chunks; ++i) {
      const Range layers = LayersOf(layout, rank, i, LayerCostsOf(config_));
      if (layer >= layers.first && layer < layers.end()) {
        chunks_[static_cast<size_t>(i)].blocks.push_back(std::move(block));
      }
    }
  }
  const std::vector<PipelineStep> schedule = ScheduleOf(layout, rank, micro_batches);
  for (int i = 0; i < layout.chunks; ++i) {
    Chunk& chunk = chunks_[static_cast<size_t>(i)];
    const int64_t slots = std::max<int64_t>(1, MostInFlight(schedule, i));
    for (int64_t s = 0; s < slots; ++s) chunk.slots.push_back(MakeSlot(chunk, max_samples));
  }
}

Decoder::Slot Decoder::MakeSlot(const Chunk& chunk, int64_t b) const {
  const int64_t own = config_.sequence / tp_.ranks();
  const Shape shape{b, own, config_.hidden};
  Slot slot;
  for (size_t i = 0; i <= chunk.blocks.size(); ++i) slot.x.push_back(Tensor::Empty(shape));
  for (size_t i = 0; i < chunk.blocks.size() && !config_.recompute_layers; ++i) {
    slot.activations.push_back(BlockActivations::Make(config_, tp_.ranks(), b));
  }
  slot.diff = Tensor::Empty(shape);
  if (!chunk.last) return slot;
  slot.diff_final = Tensor::Empty(shape);
  slot.final_mean = Tensor::Empty({b, own});
  slot.final_rstd = Tensor::Empty({b, own});
  return slot;
}

MicroBatch Decoder::MakeBatch(int64_t first_sample, int64_t global_batch, int data_lanes,
                              const TensorView& tokens, const TensorView& targets) const {
  return MakeMicroBatch(first_sample, global_batch, data_lanes, tokens, targets, tp_.slice());
}

RopeRows Decoder::Rope(int64_t tokens) const {
  if (cos_.empty()) return {};
  return {cos_.view().Slice(0, tokens), sin_.view().Slice(0, tokens)};
}

void Decoder::Receive(int chunk_number, bool backward, const TensorView& view) {
  const int from = (chunk_number + (backward ? 1 : -1)) % grid_->pipeline().size();
  const Transfer receive{from, view.data, static_cast<size_t>(view.elements()) * sizeof(float)};
  grid_->pipeline()
      .Start({}, {&receive, 1}, kFirstPipelineTag + 2 * chunk_number + (backward ? 1 : 0))
      .Wait();
}

// To the chunk with this number.
Pending Decoder::Send(int chunk_number, bool backward, const TensorView& view) {
  const Transfer send{chunk_number % grid_->pipeline().size(), view.data,
                      static_cast<size_t>(view.elements()) * sizeof(float)};
  return grid_->pipeline().Start({&send, 1}, {}, kFirstPipelineTag + 2 * chunk_number + (backward ? 1 : 0));
}

TensorView Decoder::ForwardBlocks(Chunk& chunk, Slot& slot, const MicroBatch& batch, bool keep) {
  slot.sent_x.Wait();
  const TensorView input = batch.OwnTokens(slot.x[0]);
  if (chunk.first) {
    embedding_.Forward(batch, input);
  } else {
    Receive(chunk.number, false, input);
  }
  for (size_t i = 0; i < chunk.blocks.size(); ++i) {
    chunk.blocks[i].Forward(batch, batch.OwnTokens(slot.x[i]), ActivationsOf(slot, keep ? i : 0), scratch_,
                            Rope(batch.sequence()), batch.OwnTokens(slot.x[i + 1]));
  }
  const TensorView output = batch.OwnTokens(slot.x.back());
  if (!chunk.last) slot.sent_x = Send(chunk.number + 1, false, output);
  return output;
}

TensorView Decoder::FinalNorm(const MicroBatch& batch, const TensorView& x, const Slot& slot) {
  ScopedModule module(final_norm_path_);
  const TensorView final = batch.OwnTokens(final_);
  final_norm_.Forward(x, final, batch.OwnTokens(slot.final_mean), batch.OwnTokens(slot.final_rstd));
  return final;
}

void Decoder::Forward(Chunk& chunk, const MicroBatch& batch, int64_t number, float target_weight,
                      const TensorView& loss_state) {
  ScopedPhase phase(Phase::kForward);
  Slot& slot = SlotOf(chunk, number);
  const TensorView x = ForwardBlocks(chunk, slot, batch, true);
  if (!chunk.last) return;
  head_->ForwardBackward(batch, FinalNorm(batch, x, slot), target_weight, batch.OwnTokens(slot.diff_final),
                         loss_state);
}

void Decoder::BackwardFinalNorm(const MicroBatch& batch, Slot& slot) {
  ScopedModule module(final_norm_path_);
  const TensorView mean = batch.OwnTokens(slot.final_mean), rstd = batch.OwnTokens(slot.final_rstd);
  const TensorView x = batch.OwnTokens(slot.x.back()), diff_final = batch.OwnTokens(slot.diff_final);
  final_norm_.AccumulateGradients(batch, x, mean, rstd, diff_final);
  final_norm_.Backward(x, mean, rstd, diff_final, TensorView{}, batch.OwnTokens(slot.diff));
}

void Decoder::Backward(Chunk& chunk, const MicroBatch& batch, int64_t number, bool last_batch) {
  ScopedPhase phase(Phase::kBackward);
  Slot& slot = SlotOf(chunk, number);
  slot.sent_x.Wait();  // recomputation writes there again
  slot.sent_diff.Wait();
  const TensorView diff = batch.OwnTokens(slot.diff);
  if (chunk.last) {
    BackwardFinalNorm(batch, slot);
  } else {
    Receive(chunk.number, true, diff);
  }
  for (size_t i = chunk.blocks.size(); i-- > 0;) {
    const TensorView input = batch.OwnTokens(slot.x[i]);
    const Block& block = chunk.blocks[i];
    BlockActivations& activations = ActivationsOf(slot, i);
    const RopeRows rope = Rope(batch.sequence());
    if (config_.recompute_layers) {
      ScopedPhase recompute(Phase::kRecompute);
      block.Forward(batch, input, activations, scratch_, rope, batch.OwnTokens(slot.x[i + 1]));
    }
    block.Backward(batch, input, activations, scratch_, rope, diff, diff);
    if (last_batch) {
      for (Parameter* p : block.parameters()) reducer_.Start(*p);
    }
    grid_->data().Advance();  // gradients travel while the next block computes
  }
  if (!chunk.first) {
    slot.sent_diff = Send(chunk.number - 1, true, diff);
    return;
  }
  embedding_.Backward(batch, diff);
}

void Decoder::RunStep(const std::vector<MicroBatch>& batches, float target_weight,
                      const TensorView& loss_state) {
  for (Parameter* p : parameters_.Held()) {
    p->sum.Begin();
    if (p->tied) p->other_sum.Begin();
  }
  const auto count = static_cast<int64_t>(batches.size());
  for (const PipelineStep& step : ScheduleOf(grid_->layout(), grid_->place().pipeline, count)) {
    CallContext::Current().micro_batch = static_cast<int32_t>(step.micro_batch);
    Chunk& chunk = chunks_[static_cast<size_t>(step.chunk)];
    const MicroBatch& batch = batches[static_cast<size_t>(step.micro_batch)];
    if (step.forward) {
      Forward(chunk, batch, step.micro_batch, target_weight, loss_state);
    } else {
      Backward(chunk, batch, step.micro_batch, step.micro_batch == count - 1);
    }
  }
  CallContext::Current().micro_batch = 0;
  // Blocks have begun as their last backward pass ended; what stands around them follows.
  for (Parameter* p : parameters_.Held()) {
    if (p == embedding_.tokens() || p == embedding_.positions() || p->name == "lm_head.weight" ||
        p == final_norm_.gain || p == final_norm_.bias) {
      reducer_.Start(*p);
    }
  }
  reducer_.Finish();
  for (Chunk& chunk : chunks_) {
    for (Slot& slot : chunk.slots) {
      slot.sent_x.Wait();
      slot.sent_diff.Wait();
    }
  }
}

void Decoder::Evaluate(const MicroBatch& batch, const TensorView& loss_state) {
  ScopedPhase phase(Phase::kEvaluate);
  for (Chunk& chunk : chunks_) {
    Slot& slot = chunk.slots.front();
    const TensorView x = ForwardBlocks(chunk, slot, batch, false);
    if (chunk.last) head_->Forward(batch, FinalNorm(batch, x, slot), loss_state);
  }
}

void Decoder::NextTokenLogits(std::span<const int32_t> tokens, const TensorView& logits) {
  const int64_t n = static_cast<int64_t>(tokens.size());
  SAMESTEP_CHECK(n >= 1 && n <= config_.sequence);
  SAMESTEP_CHECK_EQ(grid_->layout().ranks(), 1);
  Tensor ids = Tensor::Empty({1, n}, DType::kI32);
  std::copy(tokens.begin(), tokens.end(), ids.i32());
  ScopedPhase phase(Phase::kEvaluate);
  const MicroBatch batch = MakeBatch(0, 1, 1, ids.view(), ids.view());
  Slot& slot = chunks_.front().slots.front();
  const TensorView hidden = FinalNorm(batch, ForwardBlocks(chunks_.front(), slot, batch, false), slot);
  head_->Logits(hidden.Reshaped({n, config_.hidden}).Slice(n - 1, 1), logits.Reshaped({1, config_.vocab}));
}

}  // namespace samestep
