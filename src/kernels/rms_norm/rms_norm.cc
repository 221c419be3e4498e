#include "kernels/rms_norm/rms_norm.h"

#include "kernels/problems.h"
#include "kernels/rms_norm/rms_norm_reference.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rms_norm/rms_norm-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/rms_norm/rms_norm-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(RmsNormForwardFast);
HWY_EXPORT(RmsNormBackwardFast);
HWY_EXPORT(RmsNormBackwardGainFast);

std::vector<Problem> ForwardProblems() {
  const auto problem = [](const char* label, Shape shape, Fill fill, int64_t padding, bool timed) {
    const int64_t features = shape.back();
    const Shape rows{shape.elements() / features};
    return Problem{.label = label,
                   .arguments = {{shape, fill, 1, DType::kF32, padding},
                                 {{features}},
                                 {shape, Fill::kOutput},
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

std::vector<Problem> GainProblems() {
  const auto problem = [](const char* label, int64_t rows, int64_t features, const TokenSum& order,
                          int64_t padding, bool timed) {
    const bool update = order.lanes_set != 0;
    Problem p{.label = label,
              .arguments = {{{rows, features}, Fill::kNormal, 1, DType::kF32, padding},
                            {{rows}, Fill::kPositive},
                            {{rows, features}, Fill::kWild, 1, DType::kF32, padding},
                            {{order.token_lanes, features},
                             update ? Fill::kNormal : Fill::kOutput,
                             1,
                             DType::kF32,
                             padding,
                             update,
                             Access::kUpdate}},
              .attributes = TokenSumAttributes(order),
              .timed = timed};
    return p;
  };
  return {problem("one token", 1, 1, {.tokens = 1}, 0, false),
          problem("3 samples of 70, 2 lanes", 210, 35, {.tokens = 70, .token_lanes = 2}, 3, false),
          problem("1 sample of 600 continued", 600, 130, {.tokens = 600, .lanes_set = 1}, 0, false),
          problem("part of a sample, one lane set", 300, 20,
                  {.tokens = 1200, .first_token = 600, .token_lanes = 2, .lanes_set = 1}, 0, false),
          problem("8x512x768", 4096, 768, {.tokens = 512}, 0, true)};
}

}  // namespace

const Kernel& kRmsNormForward = RegisterKernel(
    {.name = "rms_norm.forward",
     .version = 1,
     .arguments =
         {{"src", Access::kRead}, {"gain", Access::kRead}, {"dst", Access::kWrite}, {"rstd", Access::kWrite}},
     .reference = RmsNormForwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(RmsNormForwardFast)(call); },
     .problems = ForwardProblems,
     .summary = "y = (x*r)*g, r = 1/sqrt(rowsum(x*x)/H + eps); the row sum in sixteen stripes of fma"});

const Kernel& kRmsNormBackward = RegisterKernel(
    {.name = "rms_norm.backward",
     .version = 1,
     .arguments = {{"src", Access::kRead},
                   {"gain", Access::kRead},
                   {"rstd", Access::kRead},
                   {"diff_dst", Access::kRead},
                   {"diff_skip", Access::kRead},
                   {"diff_src", Access::kWrite}},
     .reference = RmsNormBackwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(RmsNormBackwardFast)(call); },
     .problems = BackwardProblems,
     .summary =
         "dx = r * fma(-xh, q, dy*g), q = rowsum((dy*g)*xh)/H in sixteen stripes of fma; then skip + dx"});

const Kernel& kRmsNormBackwardGain =
    RegisterKernel({.name = "rms_norm.backward_gain",
                    .version = 1,
                    .arguments = {{"src", Access::kRead},
                                  {"rstd", Access::kRead},
                                  {"diff_dst", Access::kRead},
                                  {"diff_gain", Access::kWrite}},
                    .reference = RmsNormBackwardGainReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(RmsNormBackwardGainFast)(call); },
                    .problems = GainProblems,
                    .summary = "token sum of dy * xh: fma chains over blocks of 256 tokens, added in order, "
                               "an accumulator a lane"});

void RmsNormForward(const TensorView& src, const TensorView& gain, const TensorView& dst,
                    const TensorView& rstd, float eps) {
  Run(Call(kRmsNormForward).Read(src).Read(gain).Write(dst).Write(rstd).Set("eps", eps));
}

void RmsNormBackward(const TensorView& src, const TensorView& gain, const TensorView& rstd,
                     const TensorView& diff_dst, const TensorView& diff_skip, const TensorView& diff_src) {
  const bool in_place = diff_skip.present() && diff_skip.data == diff_src.data;
  Run(Call(kRmsNormBackward)
          .Read(src)
          .Read(gain)
          .Read(rstd)
          .Read(diff_dst)
          .Read(in_place ? TensorView() : diff_skip)
          .Add(diff_src, in_place ? Access::kUpdate : Access::kWrite));
}

void RmsNormBackwardGain(const TensorView& src, const TensorView& rstd, const TensorView& diff_dst,
                         const TensorView& diff_gain, const TokenSum& order) {
  Call call(kRmsNormBackwardGain);
  call.Read(src).Read(rstd).Read(diff_dst).Add(diff_gain,
                                               order.lanes_set == 0 ? Access::kWrite : Access::kUpdate);
  SetTokenSum(call, order);
  Run(call);
}

}  // namespace samestep
#endif  // HWY_ONCE
