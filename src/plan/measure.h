// measure.h: how fast this machine is at what a training does most, and how long a step may take on it.
//
//   const MachineSpeed speed = MeasureMachine(config);          // at most two seconds
//   StepSeconds(config, PlanLargestRanks(config), speed, /*ranks_on_a_machine=*/2)
//
// Determinism: none; it reads the clock. Nothing but a printed estimate depends on it.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace samestep {

struct MachineSpeed {
  double operations_per_second = 0;  // of a linear layer's forward product, at the model's shape
  double bytes_per_second = 0;       // of a pass over large tensors
  int threads = 0;
};
MachineSpeed MeasureMachine(const PlanConfig& config);

// Products at the measured speed, passes over memory at theirs, times the pipeline's bubble. The network's
// time is not in it.
double StepSeconds(const PlanConfig& config, const std::vector<RankPlan>& ranks, const MachineSpeed& speed,
                   int ranks_on_a_machine);

}  // namespace samestep
