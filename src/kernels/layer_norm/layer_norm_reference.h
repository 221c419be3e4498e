// layer_norm_reference.h: the definition of layer_norm's kernels, one value at a time. For the registry only.
#pragma once

#include "kernels/layer_norm/layer_norm.h"

namespace samestep {

void LayerNormForwardReference(const Call& call);
void LayerNormBackwardReference(const Call& call);
void LayerNormBackwardParametersReference(const Call& call);

}  // namespace samestep
