#include "model/embedding_layer.h"

#include <cstring>

#include "kernels/embedding/embedding.h"
#include "kernels/sum/sum.h"

namespace samestep {
namespace {

constexpr int kRowsTag = 6;

}  // namespace

EmbeddingLayer::EmbeddingLayer(const DecoderConfig& c, ParameterSet& set, const TensorParallel& tp, bool held,
                               bool output_held)
    : tp_(&tp), vocab_shard_(c.vocab_padded / tp.ranks()) {
  const bool llama = c.family == DecoderFamily::kLlama;
  name_ = llama ? "model.embed_tokens" : "transformer.wte";
  // A tied weight stands on the last stage, too.
  tokens_ = set.Add({name_ + ".weight", {c.vocab, c.hidden}, Initial::kNormal, Cut::kVocabulary},
                    held || (c.tied_output && output_held));
  if (c.tied_output) {
    tokens_->tied = true;
    tokens_->copy = output_held && !held;
    if (held) tokens_->other_sum = set.SumOf(*tokens_, Cut::kVocabulary);
  }
  if (llama) return;
  position_name_ = "transformer.wpe";
  positions_ =
      set.Add({position_name_ + ".weight", {c.sequence, c.hidden}, Initial::kNormal, Cut::kTokens}, held);
}

void EmbeddingLayer::Forward(const MicroBatch& batch, const TensorView& x) const {
  if (!tp_->alone()) return ForwardShards(batch, x);
  ScopedModule module(name_);
  EmbeddingForward(batch.tokens, tokens_->view(), positions_ == nullptr ? TensorView{} : positions_->view(),
                   x);
}

// Each rank sends the rows that it holds to the ranks whose tokens chose them, in the order of tokens.
void EmbeddingLayer::ForwardShards(const MicroBatch& batch, const TensorView& x) const {
  const int ranks = tp_->ranks(), rank = tp_->rank();
  const int64_t own = batch.own_tokens(), all = batch.sequence(), width = x.columns();
  const int64_t vocab = tokens_->shape[0];
  const auto owner = [&](int32_t token) {
    SAMESTEP_CHECK(token >= 0 && token < vocab);  // data is checked where it is read
    return static_cast<int>(token / vocab_shard_);
  };
  const size_t row_bytes = static_cast<size_t>(width) * sizeof(float);
  const int64_t first_row = tokens_->shard.boxes.front().global_row;
  std::vector<std::vector<float>> outgoing(static_cast<size_t>(ranks)), incoming(static_cast<size_t>(ranks));
  std::vector<size_t> expected(static_cast<size_t>(ranks));
  const auto for_tokens_of = [&](int peer, const auto& visit) {
    for (int64_t b = 0; b < batch.samples; ++b) {
      for (int64_t t = 0; t < own; ++t) visit(batch.tokens.i32()[b * all + peer * own + t], b * own + t);
    }
  };
  for (int peer = 0; peer < ranks; ++peer) {
    std::vector<float>& rows = outgoing[static_cast<size_t>(peer)];
    for_tokens_of(peer, [&](int32_t token, int64_t) {
      if (owner(token) != rank) return;
      const float* row = tokens_->weights.f32() + (token - first_row) * width;
      rows.insert(rows.end(), row, row + width);
    });
  }
  for_tokens_of(rank, [&](int32_t token, int64_t) { ++expected[static_cast<size_t>(owner(token))]; });
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < ranks; ++peer) {
    const auto i = static_cast<size_t>(peer);
    incoming[i].resize(expected[i] * static_cast<size_t>(width));
    if (peer == rank) continue;
    sends.push_back({peer, outgoing[i].data(), outgoing[i].size() * sizeof(float)});
    receives.push_back({peer, incoming[i].data(), incoming[i].size() * sizeof(float)});
  }
  incoming[static_cast<size_t>(rank)] = outgoing[static_cast<size_t>(rank)];
  tp_->group().Start(sends, receives, kRowsTag).Wait();
  std::vector<size_t> taken(static_cast<size_t>(ranks));
  for_tokens_of(rank, [&](int32_t token, int64_t row) {
    const auto i = static_cast<size_t>(owner(token));
    std::memcpy(x.f32() + row * width, incoming[i].data() + taken[i]++ * static_cast<size_t>(width),
                row_bytes);
  });
  if (positions_ == nullptr) return;
  ScopedModule module(name_);
  for (int64_t b = 0; b < batch.samples; ++b) {
    const TensorView sample = x.Slice(b, 1);
    const TensorView positions =
        ViewOf(positions_->weights.f32(), {1, own, width})
            .Within({1, positions_->shape[0], width}, {0, positions_->shard.boxes.front().global_row, 0});
    Add(sample, positions, sample);
  }
}

void EmbeddingLayer::Backward(const MicroBatch& batch, const TensorView& diff_x) const {
  GradientSum& sum = tokens_->tied ? tokens_->other_sum : tokens_->sum;
  const TensorView diff = tp_->Gather(batch, diff_x, tp_->all_tokens());
  for (const LaneSegment& s : batch.segments) {
    {
      ScopedModule module(name_);
      const TensorView tokens = batch.tokens.Slice(s.first, s.samples);
      const TokenSum order = sum.Order(batch.sequence(), 0);
      EmbeddingBackward(tokens, diff.Slice(s.first, s.samples), sum.Accumulator(), order,
                        tokens_->shard.boxes.front().global_row);
      sum.Advance(order, tokens.elements());
      if (s.ends_lane) sum.FinishLane();
    }
    if (positions_ == nullptr) continue;
    ScopedModule module(position_name_);
    const TensorView own = diff_x.Slice(s.first, s.samples);
    const TokenSum order = positions_->sum.Order(own.shape[1], 0);
    PositionBackward(own, positions_->sum.Accumulator(), order);
    positions_->sum.Advance(order, own.rows());
    if (s.ends_lane) positions_->sum.FinishLane();
  }
}

}  // namespace samestep
