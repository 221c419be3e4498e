// rope.h: rotary positions in the half-split form, in place.
//
//   RopeForward(q, cos, sin, /*head_size=*/64);    // q [samples, tokens, heads * 64], may be strided
//   RopeBackward(diff_q, cos, sin, 64);            // turns the gradient back
//
// cos and sin are [at least tokens, head_size / 2] and contiguous; the position of a row is its index in its
// sample. Feature i of a head turns with feature i + head_size / 2.
//
// Determinism: elementwise, one written sequence (numerics page, "RoPE").
#pragma once

#include "kernels/call.h"

namespace samestep {

// Kernel "rope.forward": (x1, x2) becomes (fma(x1, cos, -(x2*sin)), fma(x2, cos, x1*sin)).
void RopeForward(const TensorView& x, const TensorView& cos, const TensorView& sin, int head_size);

// Kernel "rope.backward": the same with -sin.
void RopeBackward(const TensorView& diff, const TensorView& cos, const TensorView& sin, int head_size);

}  // namespace samestep
