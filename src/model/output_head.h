// output_head.h: final norm's output -> logits -> loss, and both gradients at once, over blocks of tokens.
//
//   head.ForwardBackward(batch, hidden, target_weight, diff_hidden, loss_state, first);
//   head.Forward(batch, hidden, loss_state, first);                       // evaluation: no gradient
//
// The logits of all tokens are never in memory together. Since the weight of a target (1 / their number) is
// known before, the gradients are made while the logits are still there.
//
// Determinism: blocks of tokens end where blocks of the token sum end, so their size changes no bit.
#pragma once

#include "model/micro_batch.h"
#include "model/parameter.h"

namespace samestep {

class OutputHead {
 public:
  OutputHead(const DecoderConfig& config, Parameter* weights, int64_t samples, int64_t sequence);

  // hidden, diff_hidden: [samples, sequence, hidden]. loss_state: exact sum (kernels/exact_sum) of the token
  // losses.
  void ForwardBackward(const MicroBatch& batch, const TensorView& hidden, float target_weight,
                       const TensorView& diff_hidden, const TensorView& loss_state) const;
  void Forward(const MicroBatch& batch, const TensorView& hidden, const TensorView& loss_state) const;
  // Logits [rows, vocab] of hidden states [rows, hidden].
  void Logits(const TensorView& hidden, const TensorView& logits) const;

 private:
  struct Rows;  // a block of tokens
  std::vector<Rows> BlocksOf(const MicroBatch& batch) const;
  TensorView LogitsOf(const MicroBatch& batch, const Rows& rows) const;
  void Losses(const MicroBatch& batch, const Rows& rows, const TensorView& hidden, float target_weight,
              bool want_gradient) const;

  DecoderConfig config_;
  Parameter* weights_;
  int64_t block_rows_;
  Tensor logits_;                    // [block rows, vocab_padded]
  Tensor loss_, row_max_, row_sum_;  // [samples, sequence]
};

}  // namespace samestep
