// linear_plan.h: which chains make up a product of a linear layer, as steps of a matrix product.
//
//   LaneSteps lanes(plan, tensor_lanes);
//   for each lane, for each linear: lanes.Append(lane_begin..., terms);  lanes.EndLane();
//
// Determinism: this is the order of the numerics page: blocked sums, continued through a fan-in, then the
// balanced tree over lanes.
#pragma once

#include <cstdint>

#include "kernels/linear/gemm.h"

namespace samestep {

class LaneSteps {
 public:
  // Lane 0 and the results of merges go to plane 0 of the plan; scratch planes are added as needed.
  LaneSteps(GemmPlan* plan, int lanes) : plan_(plan), lanes_(lanes) {}

  // Continues the lane's blocked sum by `terms` terms: blocks of 256 from their first.
  void Append(GemmOperand left, int64_t left_term, GemmOperand right, int64_t right_term, int64_t terms);
  void EndLane();

 private:
  GemmPlan* plan_;
  int lanes_;
  int lane_ = 0;
  int depth_ = 0;       // planes that hold finished sums
  bool begun_ = false;  // whether this lane has a step
};

}  // namespace samestep
