// embedding_layer.h: tokens to features, with learned positions where the model has them, and their
// gradients.
//
//   EmbeddingLayer embedding(config, parameters, tp, held);
//   embedding.Forward(batch, x);                 // x: own tokens
//   embedding.Backward(batch, diff_x);
//
// Tensor ranks hold their tokens of the vocabulary: each row that a rank's tokens choose comes from the rank
// that holds it.
//
// Determinism: rows are selected and moved, never summed; gradients add positions ascending (numerics page,
// "Embedding").
#pragma once

#include "model/parameter.h"
#include "model/tensor_parallel.h"

namespace samestep {

class EmbeddingLayer {
 public:
  EmbeddingLayer(const DecoderConfig& config, ParameterSet& parameters, const TensorParallel& tp, bool held,
                 bool output_held);

  void Forward(const MicroBatch& batch, const TensorView& x) const;
  // The embedding's gradient; `diff_x`: own tokens.
  void Backward(const MicroBatch& batch, const TensorView& diff_x) const;
  Parameter* tokens() const { return tokens_; }
  Parameter* positions() const { return positions_; }  // learned; null with RoPE

 private:
  void ForwardShards(const MicroBatch& batch, const TensorView& x) const;

  const TensorParallel* tp_;
  std::string name_, position_name_;
  int64_t vocab_shard_;  // tokens of the padded vocabulary that a tensor rank holds
  Parameter* tokens_ = nullptr;
  Parameter* positions_ = nullptr;
};

}  // namespace samestep
