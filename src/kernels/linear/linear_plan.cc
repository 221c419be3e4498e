#include "kernels/linear/linear_plan.h"

#include <algorithm>
#include <bit>

#include "numerics/sums.h"

namespace samestep {

// `left_term` and `right_term`: elements from term to term.
void LaneSteps::Append(GemmOperand left, int64_t left_term, GemmOperand right, int64_t right_term,
                       int64_t terms) {
  for (int64_t k = 0; k < terms; k += kChainBlock) {
    GemmStep step;
    step.left = {left.data + k * left_term, left.stride};
    step.right = {right.data + k * right_term, right.stride};
    step.count = std::min(kChainBlock, terms - k);
    step.plane = depth_;
    step.sets = !begun_;
    begun_ = true;
    plan_->steps.push_back(step);
  }
}

void LaneSteps::EndLane() {
  if (!begun_) plan_->steps.push_back({.plane = depth_});  // a sum without terms is +0
  begun_ = false;
  // Like a binary counter: after an odd lane, as many pairs are complete as the lane's number has trailing
  // ones; after the last lane whatever is left is merged, the odd ones out first.
  const bool last = lane_ + 1 == lanes_;
  const int merges = last ? depth_ : std::countr_one(static_cast<unsigned>(lane_));
  plan_->steps.back().merges = merges;
  plan_->scratch_planes = std::max(plan_->scratch_planes, depth_);
  depth_ += 1 - merges;
  ++lane_;
}

}  // namespace samestep
