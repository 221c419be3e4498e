// adamw_reference.h: the definition of AdamW's kernel, one value at a time. For the registry only.
#pragma once

#include "kernels/adamw/adamw.h"

namespace samestep {

void AdamWReference(const Call& call);
// The scalars of a call, and their attributes.
AdamWScalars GetAdamWScalars(const Call& call);

}  // namespace samestep
