// rope_reference.h: rotary positions one pair at a time, as the numerics page writes them.
//
// Determinism: plain loops.
#pragma once

#include "kernels/call.h"

namespace samestep {

void RopeForwardReference(const Call& call);
void RopeBackwardReference(const Call& call);

}  // namespace samestep
