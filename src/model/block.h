// block.h: one decoder block: x = x + attention(norm(x)); x = x + mlp(norm(x)).
//
//   block.Forward(batch, x, activations, scratch, rope, next_x);
//   block.Backward(batch, x, activations, scratch, rope, diff_out, diff_x);
//
// Outside of the linear layers a tensor rank works on its own tokens; between column- and row-parallel ones
// on all tokens and its own heads and features (model/tensor_parallel.h).
//
// Determinism: calls of kernels in a fixed order; the sums are theirs.
#pragma once

#include <vector>

#include "kernels/attention/attention.h"
#include "model/linear_layer.h"

namespace samestep {

// What the backward pass needs of the forward pass, for up to `samples` samples. Widths are this rank's.
struct BlockActivations {
  Tensor norm1, mean1, rstd1;  // [samples, sequence, hidden] of all tokens; [samples, own tokens]
  Tensor qkv;                  // [samples, sequence, q | k | v], q and k rotated
  Tensor attention;            // [samples, sequence, query width]
  Tensor row_max, row_sum;     // [samples, heads, sequence]
  Tensor middle;               // after the attention's residual sum; own tokens
  Tensor norm2, mean2, rstd2;
  Tensor up;          // [samples, sequence, gate | up], or the first projection
  Tensor activation;  // [samples, sequence, intermediate]
  static BlockActivations Make(const DecoderConfig& config, int tensor_ranks, int64_t samples);
};

// Memory within a block; shared by all blocks.
struct BlockScratch {
  Tensor branch;  // own tokens. Forward: a norm's output, o's, down's; backward: gradient of a norm's output
  Tensor diff_middle;
  Tensor diff_activation, diff_up, diff_attention, diff_qkv;
  static BlockScratch Make(const DecoderConfig& config, int tensor_ranks, int64_t samples);
};

// The RoPE table's rows for the sequence; absent with learned positions.
struct RopeRows {
  TensorView cos, sin;
};

class Block {
 public:
  // Adds the block's parameters to the set. A block that is not held has nothing else.
  Block(const DecoderConfig& config, int64_t index, ParameterSet& parameters, const TensorParallel& tp,
        bool held);

  void Forward(const MicroBatch& batch, const TensorView& x, BlockActivations& a, BlockScratch& scratch,
               const RopeRows& rope, const TensorView& out) const;
  // `diff_x` may be the memory of `diff_out`.
  void Backward(const MicroBatch& batch, const TensorView& x, const BlockActivations& a,
                BlockScratch& scratch, const RopeRows& rope, const TensorView& diff_out,
                const TensorView& diff_x) const;
  const std::vector<Parameter*>& parameters() const { return parameters_; }

 private:
  struct Projections;  // q, k and v columns of a [.., qkv] view
  Projections Split(const TensorView& qkv) const;
  // The up projection's output, or its gradient: gate and up.
  struct UpParts;
  UpParts SplitUp(const TensorView& up) const;
  LinearLayer MakeLinear(ParameterSet& set, bool held, const std::string& path, const std::string& name,
                         const Shape& shape, Cut cut);
  void ForwardNorm(const MicroBatch& batch, const NormLayer& norm, const TensorView& x, const Tensor& all,
                   const Tensor& mean, const Tensor& rstd, BlockScratch& scratch) const;
  void ForwardAttention(const MicroBatch& batch, BlockActivations& a, const RopeRows& rope,
                        const TensorView& dst) const;
  void ForwardMlp(const MicroBatch& batch, BlockActivations& a, const TensorView& dst) const;
  void BackwardAttention(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                         const RopeRows& rope, const TensorView& diff_norm) const;
  void BackwardMlp(const MicroBatch& batch, const BlockActivations& a, BlockScratch& scratch,
                   const TensorView& diff_out, const TensorView& diff_norm) const;
  AttentionShape Attention() const;

  DecoderConfig local_;  // heads and features of this rank
  const TensorParallel* tp_;
  float scale_;  // of attention scores
  std::string name_, attention_name_, mlp_name_;
  NormLayer norm1_, norm2_;
  std::vector<LinearLayer> qkv_;  // q, k, v; or one fused
  LinearLayer o_;
  std::vector<LinearLayer> up_;  // gate, up; or one
  LinearLayer down_;
  std::vector<Parameter*> parameters_;
};

// The widths that a tensor rank works with.
DecoderConfig LocalConfig(const DecoderConfig& config, int tensor_ranks);

}  // namespace samestep
