// exact_sum.h: loss and gradient norm as exact sums, as kernels.
//
//   Tensor state = Tensor::Zeros({kExactSumWords}, DType::kI64);
//   ExactSumOf(loss, state.view(), /*squares=*/false, /*accumulate=*/false);
//   ... further micro-batches with accumulate = true ...
//   double loss = RoundExactSum(state.view()) / count;
//
// src is f32 [.., H] with evenly spaced rows; state is i64 [kExactSumWords], the words of ExactSum in
// numerics/exact_sum.h. Zeros are the state of a sum without terms.
//
// Determinism: nothing is rounded before RoundExactSum, so order, grouping and layout cannot matter.
#pragma once

#include "kernels/call.h"
#include "kernels/registry.h"

namespace samestep {

extern const Kernel& kExactSumValues;
extern const Kernel& kExactSumSquares;

inline constexpr int64_t kExactSumWords = 11;  // ExactSum::kStateWords

void ExactSumOf(const TensorView& src, const TensorView& state, bool squares, bool accumulate);
double RoundExactSum(const TensorView& state);

}  // namespace samestep
