// rms_norm.h: normalisation by the root of the mean square, forward and backward.
//
//   RmsNormForward(x, gain, y, rstd, 1e-5f);                       // y = x * r * g; rstd keeps r
//   RmsNormBackward(x, gain, rstd, dy, /*diff_skip=*/{}, dx);
//   RmsNormBackwardGain(x, rstd, dy, gain_lanes, order);           // [token_lanes, H]
//
// src, dst and their gradients are [.., H] with evenly spaced rows; gain is [H]; rstd is [rows], contiguous.
//
// Determinism: row sums in sixteen stripes; the gain's gradient is a token sum (numerics page, 1.1 and 5).
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"
#include "kernels/token_sum.h"

namespace samestep {

extern const Kernel& kRmsNormForward;
extern const Kernel& kRmsNormBackward;
extern const Kernel& kRmsNormBackwardGain;

void RmsNormForward(const TensorView& src, const TensorView& gain, const TensorView& dst,
                    const TensorView& rstd, float eps);

// diff_src = dx, or fl(diff_skip + dx) where diff_skip is present: the fan-in of a residual. diff_skip may be
// the same memory as diff_src.
void RmsNormBackward(const TensorView& src, const TensorView& gain, const TensorView& rstd,
                     const TensorView& diff_dst, const TensorView& diff_skip, const TensorView& diff_src);

// diff_gain is [token_lanes, H]: chains of dy * xh, which set or continue the accumulators as `order` says.
void RmsNormBackwardGain(const TensorView& src, const TensorView& rstd, const TensorView& diff_dst,
                         const TensorView& diff_gain, const TokenSum& order);

}  // namespace samestep
