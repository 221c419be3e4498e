// adamw_reference.h: the definition of AdamW's kernel, one value at a time. For the registry only.
#pragma once

#include "kernels/adamw/adamw.h"

namespace samestep {

void AdamWReference(const Call& call);
// The scalars of a call.
AdamWScalars GetAdamWScalars(const Call& call);
// Where element `i` of the weights (in the order of memory) lies in their logical tensor, row-major.
int64_t LogicalIndex(const TensorView& weights, int64_t i);

}  // namespace samestep
