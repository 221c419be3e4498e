#include "kernels/linear/linear.h"

#include <bit>

#include "kernels/linear/linear_kernels.h"

namespace samestep {
namespace {

const Kernel& kForward = RegisterKernel(
    {.name = "linear.forward",
     .version = 1,
     .arguments = {{"src", Access::kRead},
                   {"weights", Access::kRead},
                   {"bias", Access::kRead},
                   {"dst", Access::kWrite}},
     .reference = LinearForwardReference,
     .fast = LinearForwardFast,
     .problems = LinearForwardProblems,
     .summary = "Y = X W^T + b: a blocked sum over the inputs of each tensor lane, the tree over lanes, then "
                "the bias"});

const Kernel& kBackwardData = RegisterKernel(
    {.name = "linear.backward_data",
     .version = 1,
     .arguments = {{"diff_dst0", Access::kRead},
                   {"weights0", Access::kRead},
                   {"diff_dst1", Access::kRead},
                   {"weights1", Access::kRead},
                   {"diff_dst2", Access::kRead},
                   {"weights2", Access::kRead},
                   {"diff_src", Access::kWrite}},
     .reference = LinearBackwardDataReference,
     .fast = LinearBackwardDataFast,
     .problems = LinearBackwardDataProblems,
     .summary = "dX = dY W, summed over one to three linears: in each tensor lane a blocked sum over the "
                "outputs that continues through the linears, then the tree over lanes"});

const Kernel& kBackwardWeights = RegisterKernel(
    {.name = "linear.backward_weights",
     .version = 1,
     .arguments = {{"src", Access::kRead}, {"diff_dst", Access::kRead}, {"diff_weights", Access::kUpdate}},
     .reference = LinearBackwardWeightsReference,
     .fast = LinearBackwardWeightsFast,
     .problems = LinearBackwardWeightsProblems,
     .summary = "dW = dY^T X: a token sum in each token lane's accumulator"});

const Kernel& kBiasBackward =
    RegisterKernel({.name = "bias.backward",
                    .version = 1,
                    .arguments = {{"diff_dst", Access::kRead}, {"diff_bias", Access::kUpdate}},
                    .reference = BiasBackwardReference,
                    .fast = BiasBackwardFast,
                    .problems = BiasBackwardProblems,
                    .summary = "db = sum of dY over tokens: a token sum in each token lane's accumulator"});

// Accumulators are only written if nothing is in them yet and this call sets all of them.
Access AccumulatorAccess(const TokenSum& order, int64_t rows) {
  const bool all = std::popcount(LanesSetAfter(order, rows)) == order.token_lanes;
  return order.lanes_set == 0 && all ? Access::kWrite : Access::kUpdate;
}

}  // namespace

void LinearForward(const TensorView& src, const TensorView& weights, const TensorView& bias,
                   const TensorView& dst, int tensor_lanes) {
  Call call(kForward);
  call.Read(src).Read(weights).Read(bias).Write(dst).Set("tensor_lanes", tensor_lanes);
  Run(call);
}

void LinearBackwardData(std::span<const LinearFanIn> fan_in, const TensorView& diff_src, int tensor_lanes,
                        int64_t lane_size) {
  constexpr size_t kMostLinears = 3;
  SAMESTEP_CHECK(!fan_in.empty() && fan_in.size() <= kMostLinears);
  Call call(kBackwardData);
  for (size_t i = 0; i < kMostLinears; ++i) {
    const LinearFanIn linear = i < fan_in.size() ? fan_in[i] : LinearFanIn{};
    call.Read(linear.diff_dst).Read(linear.weights);
  }
  call.Write(diff_src).Set("tensor_lanes", tensor_lanes).Set("lane_size", lane_size);
  Run(call);
}

void LinearBackwardWeights(const TensorView& src, const TensorView& diff_dst, const TensorView& diff_weights,
                           const TokenSum& order) {
  Call call(kBackwardWeights);
  call.Read(src).Read(diff_dst).Add(diff_weights, AccumulatorAccess(order, src.rows()));
  SetTokenSum(call, order);
  Run(call);
}

void BiasBackward(const TensorView& diff_dst, const TensorView& diff_bias, const TokenSum& order) {
  Call call(kBiasBackward);
  call.Read(diff_dst).Add(diff_bias, AccumulatorAccess(order, diff_dst.rows()));
  SetTokenSum(call, order);
  Run(call);
}

}  // namespace samestep
