// cross_entropy_reference.h: the definition of cross-entropy, one value at a time. For the registry only.
#pragma once

#include "kernels/cross_entropy/cross_entropy.h"

namespace samestep {

void CrossEntropyReference(const Call& call);

}  // namespace samestep
