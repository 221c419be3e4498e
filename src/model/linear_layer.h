// linear_layer.h: a linear or normalisation layer: its parameters, and how their gradients are summed.
//
//   LinearLayer q = {"q_proj", weights, nullptr};
//   q.Forward(src, dst);                                   // column parallel: this rank's outputs
//   o.ForwardRowParallel(tp, batch, src, dst);             // row parallel: this rank's inputs, then the sum
//   q.AccumulateGradients(batch, src, diff_dst, diff_dst);
//
// Determinism: gradients go to the parameters' GradientSum, segment by segment of the micro-batch.
#pragma once

#include <string>

#include "model/parameter.h"
#include "model/tensor_parallel.h"

namespace samestep {

struct LinearLayer {
  std::string name;
  Parameter* weights = nullptr;
  Parameter* bias = nullptr;  // optional

  void Forward(const TensorView& src, const TensorView& dst) const;
  // `dst`: own tokens.
  void ForwardRowParallel(const TensorParallel& tp, const MicroBatch& batch, const TensorView& src,
                          const TensorView& dst) const;
  // `diff_bias`: the output's gradient as the bias is summed over it: all tokens, or the own ones where the
  // bias is a replica.
  void AccumulateGradients(const MicroBatch& batch, const TensorView& src, const TensorView& diff_dst,
                           const TensorView& diff_bias) const;

 private:
  TensorView BiasRows(size_t box) const;
};

struct NormLayer {
  std::string name;
  Parameter* gain = nullptr;
  Parameter* bias = nullptr;  // LayerNorm; null for RMSNorm
  float eps = 0;

  // `mean` and `rstd` are [samples, tokens]; RMSNorm leaves `mean` alone.
  void Forward(const TensorView& src, const TensorView& dst, const TensorView& mean,
               const TensorView& rstd) const;
  // diff_src = gradient through the norm, plus `diff_skip` where present.
  void Backward(const TensorView& src, const TensorView& mean, const TensorView& rstd,
                const TensorView& diff_dst, const TensorView& diff_skip, const TensorView& diff_src) const;
  void AccumulateGradients(const MicroBatch& batch, const TensorView& src, const TensorView& mean,
                           const TensorView& rstd, const TensorView& diff_dst) const;
};

NormLayer MakeNorm(const DecoderConfig& config, ParameterSet& parameters, bool held, const std::string& path,
                   const std::string& name);

}  // namespace samestep
