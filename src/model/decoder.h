// decoder.h: a decoder-only language model, Llama-style or GPT-2-style, forward and backward.
//
//   Decoder model(config, /*max_samples=*/8);
//   model.parameters().Initialize(seed, config.init_std);
//   model.BeginStep();
//   for (const MicroBatch& b : batches) model.ForwardBackward(b, 1.0f / targets, loss_state);
//   model.FinishGradients();                          // every parameter's `gradient`
//
// A step of training reads from here down: Decoder -> Block -> LinearLayer -> kernels/linear.
//
// Determinism: the graph of numerics page 5; the micro-batch size and recomputation change no bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/block.h"
#include "model/output_head.h"

namespace samestep {

class Decoder {
 public:
  Decoder(const DecoderConfig& config, int64_t max_samples);

  const DecoderConfig& config() const { return config_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }

  void BeginStep();
  // Adds the micro-batch to the gradients, and its token losses to the exact sum in loss_state.
  void ForwardBackward(const MicroBatch& batch, float target_weight, const TensorView& loss_state);
  void FinishGradients();

  // Token losses only (evaluation).
  void Evaluate(const MicroBatch& batch, const TensorView& loss_state);
  // Logits [vocab] of the token that follows `tokens` (at most `sequence` of them).
  void NextTokenLogits(std::span<const int32_t> tokens, const TensorView& logits);

 private:
  // Runs embedding and blocks; returns the last block's output. `keep`: for a backward pass.
  TensorView ForwardBlocks(const MicroBatch& batch, bool keep);
  TensorView FinalNorm(const MicroBatch& batch, const TensorView& x);
  void Embed(const MicroBatch& batch, const TensorView& dst) const;
  void BackwardEmbedding(const MicroBatch& batch, const TensorView& diff) const;
  BlockActivations& ActivationsOf(size_t block) { return activations_[config_.recompute_layers ? 0 : block]; }
  TensorView CosOf(int64_t tokens) const;
  TensorView SinOf(int64_t tokens) const;

  DecoderConfig config_;
  ParameterSet parameters_;
  std::string embedding_name_, position_name_;
  Parameter* embedding_ = nullptr;
  Parameter* positions_ = nullptr;  // learned; null with RoPE
  std::vector<Block> blocks_;
  std::string final_norm_path_;
  NormLayer final_norm_;
  std::unique_ptr<OutputHead> head_;

  Tensor cos_, sin_;       // RoPE table [sequence, head_size / 2]
  std::vector<Tensor> x_;  // block inputs, and the last output: [samples, sequence, hidden]
  std::vector<BlockActivations> activations_;  // one a block, or one in all with recomputation
  BlockScratch scratch_;
  Tensor final_, final_mean_, final_rstd_;  // final norm
  Tensor diff_x_, diff_final_;
};

}  // namespace samestep
