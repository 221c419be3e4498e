// block.h: one decoder block: x = x + attention(norm(x)); x = x + mlp(norm(x)).
//
//   block.Forward(batch, x, activations, next_x);
//   block.Backward(batch, x, activations, diff_out, scratch, diff_x);
//
// Determinism: calls of kernels in a fixed order; the sums are theirs.
#pragma once

#include <vector>

#include "model/linear_layer.h"

namespace samestep {

// What the backward pass needs of the forward pass, for up to `samples` samples of `sequence` tokens.
struct BlockActivations {
  Tensor norm1, mean1, rstd1;  // [samples, sequence, hidden], [samples, sequence]
  Tensor qkv;                  // [samples, sequence, q | k | v], q and k rotated
  Tensor attention;            // [samples, sequence, query width]
  Tensor row_max, row_sum;     // [samples, heads, sequence]
  Tensor middle;               // after the attention's residual sum
  Tensor norm2, mean2, rstd2;
  Tensor up;          // [samples, sequence, gate | up], or the first projection
  Tensor activation;  // [samples, sequence, intermediate]
  static BlockActivations Make(const DecoderConfig& config, int64_t samples, int64_t sequence);
};

// Gradients within a block; shared by all blocks.
struct BlockScratch {
  Tensor branch;  // forward: output of o or down; backward: gradient of a norm's output
  Tensor diff_activation, diff_up, diff_attention, diff_qkv, diff_middle;
  static BlockScratch Make(const DecoderConfig& config, int64_t samples, int64_t sequence);
};

class Block {
 public:
  // Adds the block's parameters to the set.
  Block(const DecoderConfig& config, int64_t index, ParameterSet& parameters);

  // `cos` and `sin` are the RoPE table's rows for the sequence; absent with learned positions.
  void Forward(const MicroBatch& batch, const TensorView& x, BlockActivations& a, BlockScratch& scratch,
               const TensorView& cos, const TensorView& sin, const TensorView& out) const;
  // `diff_x` may be the memory of `diff_out`.
  void Backward(const MicroBatch& batch, const TensorView& x, const BlockActivations& a,
                BlockScratch& scratch, const TensorView& cos, const TensorView& sin,
                const TensorView& diff_out, const TensorView& diff_x) const;

 private:
  struct Projections;  // q, k and v columns of a [.., qkv] view
  Projections Split(const TensorView& qkv) const;
  void ForwardAttention(const MicroBatch& batch, BlockActivations& a, const TensorView& cos,
                        const TensorView& sin, const TensorView& dst) const;
  void ForwardMlp(const MicroBatch& batch, BlockActivations& a, const TensorView& dst) const;
  void BackwardAttention(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                         const TensorView& cos, const TensorView& sin, const TensorView& diff_norm) const;
  void BackwardMlp(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                   const TensorView& diff_out, const TensorView& diff_norm) const;

  DecoderConfig config_;
  float scale_;  // of attention scores
  std::string name_, attention_name_, mlp_name_;
  NormLayer norm1_, norm2_;
  std::vector<LinearLayer> qkv_;  // q, k, v; or one fused
  LinearLayer o_;
  std::vector<LinearLayer> up_;  // gate, up; or one
  LinearLayer down_;
};

}  // namespace samestep
