// cross_entropy_reference.h: the definition of cross-entropy, one value at a time, of whole rows and of
// shards. For the registry only.
#pragma once

#include "kernels/cross_entropy/cross_entropy.h"

namespace samestep {

void CrossEntropyReference(const Call& call);
void CrossEntropyMaxReference(const Call& call);
void CrossEntropySumReference(const Call& call);
void CrossEntropyLossReference(const Call& call);

}  // namespace samestep
