// layer_norm.h: normalisation by mean and variance, forward and backward.
//
//   LayerNormForward(x, gain, bias, y, mean, rstd, 1e-5f);
//   LayerNormBackward(x, gain, mean, rstd, dy, /*diff_skip=*/{}, dx);
//   LayerNormBackwardParameters(x, mean, rstd, dy, gain_lanes, bias_lanes, order);   // [token_lanes, H] each
//
// src, dst and their gradients are [.., H] with evenly spaced rows; gain and bias are [H]; mean and rstd are
// [rows], contiguous.
//
// Determinism: row sums in sixteen stripes; parameter gradients are token sums (numerics page, 1.1 and 5).
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"
#include "kernels/token_sum.h"

namespace samestep {

extern const Kernel& kLayerNormForward;
extern const Kernel& kLayerNormBackward;
extern const Kernel& kLayerNormBackwardParameters;

void LayerNormForward(const TensorView& src, const TensorView& gain, const TensorView& bias,
                      const TensorView& dst, const TensorView& mean, const TensorView& rstd, float eps);

// diff_src = dx, or fl(diff_skip + dx) where diff_skip is present: the fan-in of a residual. diff_skip may be
// the same memory as diff_src.
void LayerNormBackward(const TensorView& src, const TensorView& gain, const TensorView& mean,
                       const TensorView& rstd, const TensorView& diff_dst, const TensorView& diff_skip,
                       const TensorView& diff_src);

// diff_gain and diff_bias are [token_lanes, H]: chains of dy * xh and dy * 1, which set or continue the
// accumulators as `order` says.
void LayerNormBackwardParameters(const TensorView& src, const TensorView& mean, const TensorView& rstd,
                                 const TensorView& diff_dst, const TensorView& diff_gain,
                                 const TensorView& diff_bias, const TokenSum& order);

}  // namespace samestep
