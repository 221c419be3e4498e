// output_head.h: final norm's output -> logits -> loss, and both gradients at once, over blocks of tokens.
//
//   head.ForwardBackward(batch, hidden, target_weight, diff_hidden, loss_state);
//   head.Forward(batch, hidden, loss_state);                              // evaluation: no gradient
//
// The logits of all tokens are never in memory together. Since the weight of a target (1 / their number) is
// known before, the gradients are made while the logits are still there. Tensor ranks hold their part of the
// vocabulary; the maximum and the sum of a row pass between them.
//
// Determinism: blocks of tokens end where blocks of the token sum end, so their size changes no bit.
#pragma once

#include "model/parameter.h"
#include "model/tensor_parallel.h"

namespace samestep {

class OutputHead {
 public:
  OutputHead(const DecoderConfig& config, Parameter* weights, const TensorParallel& tp, int64_t samples);

  // hidden, diff_hidden: [samples, own tokens, hidden]. loss_state: exact sum (kernels/exact_sum) of the
  // token losses, the same on every tensor rank.
  void ForwardBackward(const MicroBatch& batch, const TensorView& hidden, float target_weight,
                       const TensorView& diff_hidden, const TensorView& loss_state) const;
  void Forward(const MicroBatch& batch, const TensorView& hidden, const TensorView& loss_state) const;
  // Logits [rows, vocab] of hidden states [rows, hidden]; of a program that runs alone.
  void Logits(const TensorView& hidden, const TensorView& logits) const;

 private:
  struct Rows;  // a block of tokens
  std::vector<Rows> BlocksOf(const MicroBatch& batch) const;
  TensorView LogitsOf(const MicroBatch& batch, const Rows& rows) const;
  void Losses(const MicroBatch& batch, const Rows& rows, const TensorView& hidden, float target_weight,
              bool want_gradient) const;
  void LossesOfShards(const MicroBatch& batch, const Rows& rows, const TensorView& logits,
                      float target_weight, bool want_gradient) const;
  int64_t lane_size() const { return config_.vocab_padded / config_.tensor_lanes; }

  DecoderConfig config_;
  Parameter* weights_;
  const TensorParallel* tp_;
  int64_t block_rows_;
  Tensor logits_;                                             // [block rows, padded vocabulary of this rank]
  Tensor loss_, row_max_, row_sum_;                           // [samples, sequence]
  Tensor own_rows_, target_logits_, all_rows_, all_targets_;  // [block rows], [tensor ranks, block rows]
};

}  // namespace samestep
