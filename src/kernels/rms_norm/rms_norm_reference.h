// rms_norm_reference.h: the definition of rms_norm's kernels, one value at a time. For the registry only.
#pragma once

#include "kernels/rms_norm/rms_norm.h"

namespace samestep {

void RmsNormForwardReference(const Call& call);
void RmsNormBackwardReference(const Call& call);
void RmsNormBackwardGainReference(const Call& call);

}  // namespace samestep
