#include "model/output_head.h"

#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/exact_sum/exact_sum.h"
#include "kernels/linear/linear.h"

namespace samestep {
namespace {

// Logits in memory at once: enough rows to use the machine well, a quarter of a gigabyte at most.
int64_t BlockRows(const DecoderConfig& c, int64_t all_rows) {
  constexpr int64_t kBytes = int64_t{1} << 28;
  const int64_t fitting = kBytes / (4 * c.vocab_padded);
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

OutputHead::OutputHead(const DecoderConfig& config, Parameter* weights, int64_t samples, int64_t sequence)
    : config_(config), weights_(weights), block_rows_(BlockRows(config, samples * sequence)) {
  // A block may not end within a token block, nor be smaller than the largest of those.
  block_rows_ = std::max(block_rows_, std::min<int64_t>(256, sequence));
  logits_ = Tensor::Empty({block_rows_, config.vocab_padded});
  loss_ = Tensor::Empty({samples, sequence});
  row_max_ = Tensor::Empty({samples, sequence});
  row_sum_ = Tensor::Empty({samples, sequence});
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
  return ViewOf(logits_.f32(), {rows.samples, rows.tokens, config_.vocab_padded})
      .Columns(0, config_.vocab)
      .Within({batch.global_batch, batch.sequence(), config_.vocab},
              {batch.first_sample + rows.sample, rows.token, 0});
}

void OutputHead::Logits(const TensorView& hidden, const TensorView& logits) const {
  LinearForward(hidden, weights_->weights.view(), TensorView{}, logits, 1);
}

void OutputHead::Losses(const MicroBatch& batch, const Rows& rows, const TensorView& hidden,
                        float target_weight, bool want_gradient) const {
  const TensorView logits = LogitsOf(batch, rows);
  Logits(rows.Of(hidden), logits);
  const CrossEntropyOptions options{config_.vocab_padded / config_.tensor_lanes, config_.tensor_lanes,
                                    target_weight, want_gradient};
  CrossEntropy(logits, rows.Of(batch.targets), rows.Of(batch.Part(loss_)), rows.Of(batch.Part(row_max_)),
               rows.Of(batch.Part(row_sum_)), options);
}

void OutputHead::ForwardBackward(const MicroBatch& batch, const TensorView& hidden, float target_weight,
                                 const TensorView& diff_hidden, const TensorView& loss_state) const {
  ScopedModule module("lm_head");
  for (const Rows& rows : BlocksOf(batch)) {
    Losses(batch, rows, hidden, target_weight, true);
    ScopedPhase phase(Phase::kBackward);
    const TensorView diff_logits = LogitsOf(batch, rows);  // the loss left their gradient in their place
    const LinearFanIn fan_in{diff_logits, weights_->weights.view()};
    LinearBackwardData({&fan_in, 1}, rows.Of(diff_hidden), config_.tensor_lanes,
                       config_.vocab_padded / config_.tensor_lanes);
    const TokenSum order = weights_->sum.Order(batch.sequence(), rows.token);
    LinearBackwardWeights(rows.Of(hidden), diff_logits, weights_->sum.Accumulator(), order);
    weights_->sum.Advance(order, rows.samples * rows.tokens);
    if (rows.ends_lane) weights_->sum.FinishLane();
  }
  ExactSumOf(batch.Part(loss_), loss_state, false, true);
}

void OutputHead::Forward(const MicroBatch& batch, const TensorView& hidden,
                         const TensorView& loss_state) const {
  ScopedModule module("lm_head");
  for (const Rows& rows : BlocksOf(batch)) Losses(batch, rows, hidden, 1.0f, false);
  ExactSumOf(batch.Part(loss_), loss_state, false, true);
}

}  // namespace samestep
