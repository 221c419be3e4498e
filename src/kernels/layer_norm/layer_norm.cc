#include "kernels/layer_norm/layer_norm.h"

#include "kernels/layer_norm/layer_norm_reference.h"
#include "kernels/problems.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/layer_norm-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/layer_norm/layer_norm-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(LayerNormForwardFast);
HWY_EXPORT(LayerNormBackwardFast);
HWY_EXPORT(LayerNormBackwardParametersFast);

std::vector<Problem> ForwardProblems() {
  const auto problem = [](const char* label, Shape shape, Fill fill, int64_t padding, bool timed) {
    const int64_t features = shape.back();
    const Shape rows{shape.elements() / features};
    return Problem{.label = label,
                   .arguments = {{shape, fill, 1, DType::kF32, padding},
                                 {{features}},
                                 {{features}},
                                 {shape, Fill::kOutput, 1, DType::kF32, padding * 2},
                                 {rows, Fill::kOutput},
                                 {rows, Fill::kOutput}},
                   .attributes = {RealAttribute("eps", 1e-5f)},
                   .timed = timed};
  };
  return {problem("1x1", {1, 1}, Fill::kNormal, 0, false),
          problem("3x17 rows padded", {3, 17}, Fill::kWild, 5, false),
          problem("zeros", {2, 33}, Fill::kZero, 0, false),
          problem("2x150x100", {2, 150, 100}, Fill::kNormal, 0, false),
          problem("8x512x768", {8, 512, 768}, Fill::kNormal, 0, true)};
}

std::vector<Problem> BackwardProblems() {
  enum Skip { kNone, kOwn, kInPlace };
  const auto problem = [](const char* label, Shape shape, Skip skip, int64_t padding, bool timed) {
    const int64_t features = shape.back();
    const Shape rows{shape.elements() / features};
    const Shape skip_shape = skip == kOwn ? shape : Shape();
    const bool update = skip == kInPlace;
    return Problem{.label = label,
                   .arguments = {{shape, Fill::kNormal, 1, DType::kF32, padding},
                                 {{features}},
                                 {rows},
                                 {rows, Fill::kPositive},
                                 {shape, Fill::kNormal, 1, DType::kF32, padding * 2},
                                 {skip_shape},
                                 {shape, update ? Fill::kNormal : Fill::kOutput, 1, DType::kF32, padding,
                                  update, Access::kUpdate}},
                   .attributes = {},
                   .timed = timed};
  };
  return {problem("1x1", {1, 1}, kNone, 0, false), problem("3x17 rows padded", {3, 17}, kOwn, 3, false),
          problem("2x150x100", {2, 150, 100}, kInPlace, 0, false),
          problem("2x150x112 rows padded", {2, 150, 112}, kNone, 4, false),
          problem("8x512x768", {8, 512, 768}, kInPlace, 0, true)};
}

std::vector<Problem> ParameterProblems() {
  const auto problem = [](const char* label, int64_t rows, int64_t features, const TokenSum& order,
                          int64_t padding, bool timed) {
    const bool update = order.lanes_set != 0;
    const ProblemArgument sum{{order.token_lanes, features},
                              update ? Fill::kNormal : Fill::kOutput,
                              1,
                              DType::kF32,
                              padding,
                              update,
                              Access::kUpdate};
    return Problem{.label = label,
                   .arguments = {{{rows, features}, Fill::kNormal, 1, DType::kF32, padding},
                                 {{rows}},
                                 {{rows}, Fill::kPositive},
                                 {{rows, features}, Fill::kWild, 1, DType::kF32, padding},
                                 sum,
                                 sum},
                   .attributes = TokenSumAttributes(order),
                   .timed = timed};
  };
  return {problem("one token", 1, 1, {.tokens = 1}, 0, false),
          problem("3 samples of 70, 2 lanes", 210, 35, {.tokens = 70, .token_lanes = 2}, 3, false),
          problem("1 sample of 600 continued", 600, 130, {.tokens = 600, .lanes_set = 1}, 0, false),
          problem("part of a sample, one lane set", 300, 20,
                  {.tokens = 1200, .first_token = 600, .token_lanes = 2, .lanes_set = 1}, 0, false),
          problem("8x512x768", 4096, 768, {.tokens = 512}, 0, true)};
}

}  // namespace

const Kernel& kLayerNormForward = RegisterKernel(
    {.name = "layer_norm.forward",
     .version = 1,
     .arguments = {{"src", Access::kRead},
                   {"gain", Access::kRead},
                   {"bias", Access::kRead},
                   {"dst", Access::kWrite},
                   {"mean", Access::kWrite},
                   {"rstd", Access::kWrite}},
     .reference = LayerNormForwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(LayerNormForwardFast)(call); },
     .problems = ForwardProblems,
     .summary =
         "y = fma(xh, g, b), xh = (x - mu)*r, mu = rowsum(x)/H, r = 1/sqrt(rowsum(xc*xc)/H + eps); row "
         "sums in sixteen stripes"});

const Kernel& kLayerNormBackward = RegisterKernel(
    {.name = "layer_norm.backward",
     .version = 1,
     .arguments = {{"src", Access::kRead},
                   {"gain", Access::kRead},
                   {"mean", Access::kRead},
                   {"rstd", Access::kRead},
                   {"diff_dst", Access::kRead},
                   {"diff_skip", Access::kRead},
                   {"diff_src", Access::kWrite}},
     .reference = LayerNormBackwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(LayerNormBackwardFast)(call); },
     .problems = BackwardProblems,
     .summary =
         "dx = r * fma(-xh, q, dxh - h), dxh = dy*g, h = rowsum(dxh)/H, q = rowsum(dxh*xh)/H in sixteen "
         "stripes; then skip + dx"});

const Kernel& kLayerNormBackwardParameters = RegisterKernel(
    {.name = "layer_norm.backward_parameters",
     .version = 1,
     .arguments = {{"src", Access::kRead},
                   {"mean", Access::kRead},
                   {"rstd", Access::kRead},
                   {"diff_dst", Access::kRead},
                   {"diff_gain", Access::kWrite},
                   {"diff_bias", Access::kWrite}},
     .reference = LayerNormBackwardParametersReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(LayerNormBackwardParametersFast)(call); },
     .problems = ParameterProblems,
     .summary = "token sums of dy * xh and dy * 1: fma chains over blocks of 256 tokens, added in order, an "
                "accumulator a lane"});

void LayerNormForward(const TensorView& src, const TensorView& gain, const TensorView& bias,
                      const TensorView& dst, const TensorView& mean, const TensorView& rstd, float eps) {
  Run(Call(kLayerNormForward)
          .Read(src)
          .Read(gain)
          .Read(bias)
          .Write(dst)
          .Write(mean)
          .Write(rstd)
          .Set("eps", eps));
}

void LayerNormBackward(const TensorView& src, const TensorView& gain, const TensorView& mean,
                       const TensorView& rstd, const TensorView& diff_dst, const TensorView& diff_skip,
                       const TensorView& diff_src) {
  const bool in_place = diff_skip.present() && diff_skip.data == diff_src.data;
  Run(Call(kLayerNormBackward)
          .Read(src)
          .Read(gain)
          .Read(mean)
          .Read(rstd)
          .Read(diff_dst)
          .Read(in_place ? TensorView() : diff_skip)
          .Add(diff_src, in_place ? Access::kUpdate : Access::kWrite));
}

void LayerNormBackwardParameters(const TensorView& src, const TensorView& mean, const TensorView& rstd,
                                 const TensorView& diff_dst, const TensorView& diff_gain,
                                 const TensorView& diff_bias, const TokenSum& order) {
  const Access access = order.lanes_set == 0 ? Access::kWrite : Access::kUpdate;
  Call call(kLayerNormBackwardParameters);
  call.Read(src).Read(mean).Read(rstd).Read(diff_dst).Add(diff_gain, access).Add(diff_bias, access);
  SetTokenSum(call, order);
  Run(call);
}

}  // namespace samestep
#endif  // HWY_ONCE
