// work.h: the arithmetic and the bytes sent of a rank's plan.
//
//   PlanArithmetic(config, plan);
//   PlanNetwork(config, plan);     // plan.place is set
//
// Determinism: integers.
#pragma once

#include "plan/plan.h"

namespace samestep {

void PlanArithmetic(const PlanConfig& config, RankPlan& plan);
void PlanNetwork(const PlanConfig& config, RankPlan& plan);

}  // namespace samestep
