// linear_kernels.h: the implementations and problems that linear.cc registers.
//
// Determinism: see linear.h.
#pragma once

#include <vector>

#include "kernels/registry.h"

namespace samestep {

void LinearForwardReference(const Call& call);
void LinearForwardFast(const Call& call);
std::vector<Problem> LinearForwardProblems();

void LinearBackwardDataReference(const Call& call);
void LinearBackwardDataFast(const Call& call);
std::vector<Problem> LinearBackwardDataProblems();

void LinearBackwardWeightsReference(const Call& call);
void LinearBackwardWeightsFast(const Call& call);
std::vector<Problem> LinearBackwardWeightsProblems();

void BiasBackwardReference(const Call& call);
void BiasBackwardFast(const Call& call);
std::vector<Problem> BiasBackwardProblems();

}  // namespace samestep
