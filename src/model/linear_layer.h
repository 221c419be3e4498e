// linear_layer.h: a linear or normalisation layer: its parameters, and how their gradients are summed.
//
//   LinearLayer q = {"q_proj", weights, nullptr};
//   q.Forward(src, dst, 1);
//   q.AccumulateGradients(batch, src, diff_dst);
//
// Determinism: gradients go to the parameters' GradientSum, segment by segment of the micro-batch.
#pragma once

#include <string>

#include "model/micro_batch.h"
#include "model/parameter.h"

namespace samestep {

struct LinearLayer {
  std::string name;
  Parameter* weights = nullptr;
  Parameter* bias = nullptr;  // optional

  // `lanes`: tensor lanes that the inputs are cut into (row-parallel projections), else 1.
  void Forward(const TensorView& src, const TensorView& dst, int lanes) const;
  void AccumulateGradients(const MicroBatch& batch, const TensorView& src, const TensorView& diff_dst) const;
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

NormLayer MakeNorm(const DecoderConfig& config, ParameterSet& parameters, const std::string& path,
                   const std::string& name);
// Token lanes of a parameter: those that tensor ranks hold as replicas are summed over C * T lanes.
int TokenLanes(const DecoderConfig& config, bool replicated);

}  // namespace samestep
