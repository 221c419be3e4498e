#include "model/output_head.h"

#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_shards.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/linear/linear.h"
#include "parallel/exchange.h"

namespace samestep {
namespace {

// Logits in memory at once: enough rows to use the machine well, a quarter of a gigabyte at most.
int64_t BlockRows(int64_t columns, int64_t all_rows) {
  constexpr int64_t kBytes = int64_t{1} << 28;
  const int64_t fitting = kBytes / (4 * columns);
  return std::min(all_rows, std::clamp<int64_t>(fitting / 256 * 256, 256, 4096));
}

}  // namespace

// Whole samples [sample, sample + samples), or tokens [token, token + tokens) of one sample.
struct OutputHead::Rows {
  int64_t sample, samples, token, tokens;
  bool ends_lane;  // and with it the data lane

  // This block's part of [samples, sequence, …], at its place in the global batch.
  TensorView Of(const TensorView& view) const {
    TensorView part = view.Slice(sample, samples);
    if (tokens == view.shape[1]) return part;
    part.data = static_cast<std::byte*>(part.data) + token * part.strides[1] * BitsOf(part.dtype) / 8;
    part.shape[1] = tokens;
    part.offsets[1] += token;
    return part;
  }
};

OutputHead::OutputHead(const DecoderConfig& config, Parameter* weights, const TensorParallel& tp,
                       int64_t samples)
    : config_(config), weights_(weights), tp_(&tp) {
  const int64_t sequence = config.sequence, columns = config.vocab_padded / tp.ranks();
  // A block may not end within a token block, nor be smaller than the largest of those.
  block_rows_ = std::max(BlockRows(columns, samples * sequence), std::min<int64_t>(256, sequence));
  logits_ = Tensor::Empty({block_rows_, columns});
  loss_ = Tensor::Empty({samples, sequence});
  row_max_ = Tensor::Empty({samples, sequence});
  row_sum_ = Tensor::Empty({samples, sequence});
  if (tp.alone()) return;
  own_rows_ = Tensor::Empty({block_rows_});
  target_logits_ = Tensor::Empty({block_rows_});
  all_rows_ = Tensor::Empty({tp.ranks(), block_rows_});
  all_targets_ = Tensor::Empty({tp.ranks(), block_rows_});
}

std::vector<OutputHead::Rows> OutputHead::BlocksOf(const MicroBatch& batch) const {
  const int64_t s = batch.sequence();
  std::vector<Rows> blocks;
  for (const LaneSegment& segment : batch.segments) {
    const int64_t end = segment.first + segment.samples, whole = block_rows_ / s;
    for (int64_t i = segment.first; i < end;) {
      if (whole >= 1) {
        const int64_t n = std::min(whole, end - i);
        blocks.push_back({i, n, 0, s, false});
        i += n;
        continue;
      }
      Rows rows{i, 1, 0, 0, false};
      for (const TokenBlock& b : TokenBlocks({s, 0, config_.context_lanes, 0}, s)) {
        if (rows.tokens > 0 && rows.tokens + b.count > block_rows_) {
          blocks.push_back(rows);
          rows = {i, 1, b.row, 0, false};
        }
        rows.tokens += b.count;
      }
      blocks.push_back(rows);
      ++i;
    }
    blocks.back().ends_lane = segment.ends_lane;
  }
  return blocks;
}

TensorView OutputHead::LogitsOf(const MicroBatch& batch, const Rows& rows) const {
  const Shard& shard = weights_->shard;
  return ViewOf(logits_.f32(), {rows.samples, rows.tokens, logits_.shape()[1]})
      .Columns(0, shard.local_rows())
      .Within({batch.global_batch, batch.sequence(), config_.vocab},
              {batch.first_sample + rows.sample, rows.token, shard.boxes.front().global_row});
}

void OutputHead::Logits(const TensorView& hidden, const TensorView& logits) const {
  LinearForward(hidden, weights_->view(), TensorView{}, logits, 1);
}

void OutputHead::Losses(const MicroBatch& batch, const Rows& rows, const TensorView& hidden,
                        float target_weight, bool want_gradient) const {
  const TensorView logits = LogitsOf(batch, rows);
  Logits(rows.Of(hidden), logits);
  if (!tp_->alone()) return LossesOfShards(batch, rows, logits, target_weight, want_gradient);
  const CrossEntropyOptions options{lane_size(), config_.tensor_lanes, target_weight, want_gradient};
  CrossEntropy(logits, rows.Of(batch.targets), rows.Of(batch.AllTokens(loss_)),
               rows.Of(batch.AllTokens(row_max_)), rows.Of(batch.AllTokens(row_sum_)), options);
}

void OutputHead::LossesOfShards(const MicroBatch& batch, const Rows& rows, const TensorView& logits,
                                float target_weight, bool want_gradient) const {
  const int64_t n = rows.samples * rows.tokens;
  const TensorView targets = rows.Of(batch.targets), row_max = rows.Of(batch.AllTokens(row_max_));
  const TensorView own = tp_->Partial(own_rows_.view().Slice(0, n));
  const TensorView chosen = tp_->Partial(target_logits_.view().Slice(0, n));
  const TensorView all = ViewOf(all_rows_.f32(), {tp_->ranks(), n});
  const TensorView all_chosen = ViewOf(all_targets_.f32(), {tp_->ranks(), n});
  const VocabularyShard shard{.first_column = weights_->shard.boxes.front().global_row,
                              .lane_size = lane_size(),
                              .lanes = tp_->lanes(),
                              .vocab = config_.vocab};
  CrossEntropyMax(logits, own);
  GatherAll(tp_->group(), own, all);
  CrossEntropySum(logits, targets, all, row_max, own, chosen, shard, want_gradient);
  GatherAll(tp_->group(), own, all);
  GatherAll(tp_->group(), chosen, all_chosen);
  CrossEntropyLoss(logits, targets, row_max, all, all_chosen, rows.Of(batch.AllTokens(loss_)),
                   rows.Of(batch.AllTokens(row_sum_)), shard, target_weight, want_gradient);
}

void OutputHead::ForwardBackward(const MicroBatch& batch, const TensorView& own_hidden, float target_weight,
                                 const TensorView& diff_hidden, const TensorView& loss_state) const {
  ScopedModule module("lm_head");
  const TensorView hidden = tp_->Gather(batch, own_hidden, tp_->all_tokens());
  const TensorView partial = tp_->PartialOf(batch, diff_hidden);
  for (const Rows& rows : BlocksOf(batch)) {
    Losses(batch, rows, hidden, target_weight, true);
    ScopedPhase phase(Phase::kBackward);
    const TensorView diff_logits = LogitsOf(batch, rows);  // the loss left their gradient in their place
    const LinearFanIn fan_in{diff_logits, weights_->view()};
    LinearBackwardData({&fan_in, 1}, rows.Of(partial), tp_->lanes(), lane_size());
    const TokenSum order = weights_->sum.Order(batch.sequence(), rows.token);
    LinearBackwardWeights(rows.Of(hidden), diff_logits, weights_->sum.Accumulator(), order);
    weights_->sum.Advance(order, rows.samples * rows.tokens);
    if (rows.ends_lane) weights_->sum.FinishLane();
  }
  {
    ScopedPhase phase(Phase::kBackward);
    tp_->Reduce(partial, diff_hidden);
  }
  ExactSumOf(batch.AllTokens(loss_), loss_state, false, true);
}

void OutputHead::Forward(const MicroBatch& batch, const TensorView& own_hidden,
                         const TensorView& loss_state) const {
  ScopedModule module("lm_head");
  const TensorView hidden = tp_->Gather(batch, own_hidden, tp_->all_tokens());
  for (const Rows& rows : BlocksOf(batch)) Losses(batch, rows, hidden, 1.0f, false);
  ExactSumOf(batch.AllTokens(loss_), loss_state, false, true);
}

}  // namespace samestep
