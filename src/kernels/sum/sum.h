// sum.h: element-wise sums of whole tensors: of two, of the lanes of a partial sum, of rows and a bias.
//
//   Add(residual, branch, residual);   // dst may be one of the addends
//   SumTree(partial, dst);             // partial [lanes, ...], dst [...]
//   AddBias(dst, bias, dst);           // after the tree over the partial sums of several processes
//
// Determinism: fl(left + right), fl(src + bias); lanes by the balanced tree of the numerics page (neighbours
// are added, then again, until one is left; an odd one out moves up unchanged).
#pragma once

#include "kernels/call.h"

namespace samestep {

// Kernel sum.add. All three of one shape; rows may be padded.
void Add(const TensorView& left, const TensorView& right, const TensorView& dst);

// Kernel sum.tree. src [lanes, ...], at most 64 lanes, dst [...]; rows and lanes may be padded.
void SumTree(const TensorView& src, const TensorView& dst);

// Kernel sum.bias. dst[row, j] = fl(src[row, j] + bias[j]); src and dst of one shape (dst may be src), rows
// may be padded.
void AddBias(const TensorView& src, const TensorView& bias, const TensorView& dst);

}  // namespace samestep
