#include "kernels/sum/sum.h"

#include "kernels/sum/sum_kernels.h"

namespace samestep {
namespace {

const Kernel& kAdd =
    RegisterKernel({.name = "sum.add",
                    .version = 1,
                    .arguments = {{"left", Access::kRead}, {"right", Access::kRead}, {"dst", Access::kWrite}},
                    .reference = AddReference,
                    .fast = AddFast,
                    .problems = AddProblems,
                    .summary = "dst = left + right"});

const Kernel& kSumTree = RegisterKernel(
    {.name = "sum.tree",
     .version = 1,
     .arguments = {{"src", Access::kRead}, {"dst", Access::kWrite}},
     .reference = SumTreeReference,
     .fast = SumTreeFast,
     .problems = SumTreeProblems,
     .summary = "the balanced tree over the first dimension: neighbours are added until one is "
                "left; an odd one out moves up"});

const Kernel& kAddBias =
    RegisterKernel({.name = "sum.bias",
                    .version = 1,
                    .arguments = {{"src", Access::kRead}, {"bias", Access::kRead}, {"dst", Access::kWrite}},
                    .reference = AddBiasReference,
                    .fast = AddBiasFast,
                    .problems = AddBiasProblems,
                    .summary = "dst = src + bias, the bias in each row"});

}  // namespace

void Add(const TensorView& left, const TensorView& right, const TensorView& dst) {
  Call call(kAdd);
  call.Read(left).Read(right).Write(dst);
  Run(call);
}

void SumTree(const TensorView& src, const TensorView& dst) {
  Call call(kSumTree);
  call.Read(src).Write(dst);
  Run(call);
}

void AddBias(const TensorView& src, const TensorView& bias, const TensorView& dst) {
  Call call(kAddBias);
  call.Read(src).Read(bias).Write(dst);
  Run(call);
}

TreeArguments::TreeArguments(const Call& call) {
  const TensorView &from = call.view(0), &to = call.view(1);
  SAMESTEP_CHECK_GE(from.shape.rank(), 1);
  lanes = from.shape[0];
  SAMESTEP_CHECK(lanes >= 1 && lanes <= 64);
  const TensorView lane = from.Slice(0, 1);
  SAMESTEP_CHECK_EQ(lane.elements(), to.elements());
  src = from.f32();
  dst = to.f32();
  lane_stride = from.strides[0];
  if (lane.contiguous() && to.contiguous()) {
    rows = 1;
    columns = src_stride = dst_stride = to.elements();
    return;
  }
  SAMESTEP_CHECK_EQ(lane.columns(), to.columns());
  rows = to.rows();
  columns = to.columns();
  src_stride = lane.row_stride();
  dst_stride = to.row_stride();
}

}  // namespace samestep
