// The three products as plans of gemm.h.
#include "kernels/linear/gemm.h"
#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/linear_kernels.h"
#include "kernels/linear/linear_plan.h"

namespace samestep {

void LinearForwardFast(const Call& call) {
  const LinearForwardArguments a(call);
  GemmPlan plan{.rows = a.rows,
                .columns = a.outputs,
                .left_layout = TermLayout::kContiguous,
                .right_layout = TermLayout::kContiguous,
                .bias = a.bias.present() ? a.bias.f32() : nullptr,
                .planes = {{a.dst.f32(), a.dst.row_stride()}}};
  const int64_t size = a.inputs / a.lanes;
  LaneSteps steps(&plan, a.lanes);
  for (int64_t lane = 0; lane < a.lanes; ++lane) {
    const GemmOperand src = {a.src.f32() + lane * size, a.src.row_stride()};
    const GemmOperand weights = {a.weights.f32() + lane * size, a.weights.row_stride()};
    steps.Append(src, 1, weights, 1, size);
    steps.EndLane();
  }
  RunGemm(plan);
}

void LinearBackwardDataFast(const Call& call) {
  const LinearBackwardDataArguments a(call);
  GemmPlan plan{.rows = a.rows,
                .columns = a.inputs,
                .left_layout = TermLayout::kContiguous,
                .right_layout = TermLayout::kStrided,
                .planes = {{a.diff_src.f32(), a.diff_src.row_stride()}}};
  LaneSteps steps(&plan, a.lanes);
  for (int lane = 0; lane < a.lanes; ++lane) {
    for (const auto& linear : a.linears) {
      const int64_t begin = linear.LaneBegin(lane);
      const int64_t diff_stride = linear.diff_dst.row_stride(), weight_stride = linear.weights.row_stride();
      steps.Append({linear.diff_dst.f32() + begin, diff_stride}, 1,
                   {linear.weights.f32() + begin * weight_stride, weight_stride}, weight_stride,
                   linear.LaneTerms(lane));
    }
    steps.EndLane();
  }
  RunGemm(plan);
}

void LinearBackwardWeightsFast(const Call& call) {
  const TensorView src = call.view(0);
  const TokenSumArguments a(call, 1, 2, 2);
  SAMESTEP_CHECK_EQ(src.rows(), a.rows);
  SAMESTEP_CHECK_EQ(src.columns(), a.accumulators.columns());
  GemmPlan plan{.rows = a.outputs,
                .columns = src.columns(),
                .left_layout = TermLayout::kStrided,
                .right_layout = TermLayout::kStrided};
  const int64_t token_lanes = call.Integer("token_lanes");
  const int64_t stride = a.accumulators.strides[a.accumulators.shape.rank() - 2];
  for (int64_t lane = 0; lane < token_lanes; ++lane) {
    plan.planes.push_back({a.accumulators.f32() + lane * a.lane_stride, stride});
  }
  for (const TokenBlock& block : a.blocks) {
    plan.steps.push_back(
        {.left = {a.diff_dst.f32() + block.row * a.diff_dst.row_stride(), a.diff_dst.row_stride()},
         .right = {src.f32() + block.row * src.row_stride(), src.row_stride()},
         .count = block.count,
         .plane = block.lane,
         .sets = block.sets});
  }
  RunGemm(plan);
}

}  // namespace samestep
