// activation.h: the nonlinear functions of a decoder's MLP, forward and backward.
//
//   SwigluForward(gate, up, y);                      // y = silu(gate) * up
//   GeluForward(x, y, GeluForm::kTanh);
//
// All views are [.., H] of one shape with evenly spaced rows. Destinations may be the same memory as a source
// of the same call.
//
// Determinism: element by element, from correctly rounded functions (numerics page, 3 and 5).
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"

namespace samestep {

enum class GeluForm { kErf, kTanh };

extern const Kernel& kSwigluForward;
extern const Kernel& kSwigluBackward;
extern const Kernel& kGeluForward;
extern const Kernel& kGeluBackward;
extern const Kernel& kGeluTanhForward;
extern const Kernel& kGeluTanhBackward;

void SwigluForward(const TensorView& gate, const TensorView& up, const TensorView& dst);
void SwigluBackward(const TensorView& gate, const TensorView& up, const TensorView& diff_dst,
                    const TensorView& diff_gate, const TensorView& diff_up);
void GeluForward(const TensorView& src, const TensorView& dst, GeluForm form);
void GeluBackward(const TensorView& src, const TensorView& diff_dst, const TensorView& diff_src,
                  GeluForm form);

}  // namespace samestep
