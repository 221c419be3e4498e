// attention_problems.h: the shapes that attention is tested and timed on.
//
// Determinism: constants.
#pragma once

#include <vector>

#include "kernels/registry.h"

namespace samestep {

std::vector<Problem> AttentionForwardProblems();
std::vector<Problem> AttentionBackwardProblems();

}  // namespace samestep
