// memory.h: the memory part of a rank's plan.
//
//   PlanMemory(config, plan);     // plan.place is set
//
// Determinism: integers.
#pragma once

#include "plan/plan.h"

namespace samestep {

void PlanMemory(const PlanConfig& config, RankPlan& plan);

}  // namespace samestep
