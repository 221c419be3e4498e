// sum.h: element-wise sums of whole tensors: of two, and of the lanes of a partial sum.
//
//   Add(residual, branch, residual);   // dst may be one of the addends
//   SumTree(partial, dst);             // partial [lanes, ...], dst [...]
//
// Determinism: fl(left + right); lanes by the balanced tree of the numerics page (neighbours are added, then
// again, until one is left; an odd one out moves up unchanged).
#pragma once

#include "kernels/call.h"

namespace samestep {

// Kernel sum.add. All three of one shape; rows may be padded.
void Add(const TensorView& left, const TensorView& right, const TensorView& dst);

// Kernel sum.tree. src [lanes, ...], at most 64 lanes, dst [...]; rows and lanes may be padded.
void SumTree(const TensorView& src, const TensorView& dst);

}  // namespace samestep
