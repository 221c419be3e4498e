// embedding_reference.h: the definition of embedding's kernels, one value at a time. For the registry only.
#pragma once

#include "kernels/embedding/embedding.h"

namespace samestep {

void EmbeddingForwardReference(const Call& call);
void EmbeddingBackwardReference(const Call& call);
void PositionBackwardReference(const Call& call);

}  // namespace samestep
