#include "kernels/activation/activation.h"

#include "kernels/activation/activation_reference.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/activation-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/activation/activation-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(SwigluForwardFast);
HWY_EXPORT(SwigluBackwardFast);
HWY_EXPORT(GeluForwardFast);
HWY_EXPORT(GeluBackwardFast);
HWY_EXPORT(GeluTanhForwardFast);
HWY_EXPORT(GeluTanhBackwardFast);

// Problems of `sources` inputs and `destinations` outputs of one shape.
template <int kSources, int kDestinations>
std::vector<Problem> Problems() {
  const auto problem = [](const char* label, Shape shape, Fill fill, double scale, int64_t padding,
                          bool timed) {
    Problem p{.label = label, .arguments = {}, .attributes = {}, .timed = timed};
    for (int k = 0; k < kSources; ++k) p.arguments.push_back({shape, fill, scale, DType::kF32, padding});
    for (int k = 0; k < kDestinations; ++k) {
      p.arguments.push_back({shape, Fill::kOutput, 1, DType::kF32, 2 * padding});
    }
    return p;
  };
  return {problem("1x1", {1, 1}, Fill::kNormal, 1, 0, false),
          problem("5x37 wild, rows padded", {5, 37}, Fill::kWild, 1, 3, false),
          problem("3x64 large", {3, 64}, Fill::kNormal, 60, 0, false),
          problem("zeros", {2, 9}, Fill::kZero, 1, 0, false),
          problem("2x150x70", {2, 150, 70}, Fill::kNormal, 2, 0, false),
          problem("4x512x2048", {4, 512, 2048}, Fill::kNormal, 1, 0, true)};
}

const std::vector<ArgumentSpec> kForwardArguments = {{"src", Access::kRead}, {"dst", Access::kWrite}};
const std::vector<ArgumentSpec> kBackwardArguments = {
    {"src", Access::kRead}, {"diff_dst", Access::kRead}, {"diff_src", Access::kWrite}};

}  // namespace

const Kernel& kSwigluForward =
    RegisterKernel({.name = "swiglu.forward",
                    .version = 1,
                    .arguments = {{"gate", Access::kRead}, {"up", Access::kRead}, {"dst", Access::kWrite}},
                    .reference = SwigluForwardReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(SwigluForwardFast)(call); },
                    .problems = Problems<2, 1>,
                    .summary = "y = (g * sigmoid(g)) * u; no sum"});

const Kernel& kSwigluBackward = RegisterKernel(
    {.name = "swiglu.backward",
     .version = 1,
     .arguments = {{"gate", Access::kRead},
                   {"up", Access::kRead},
                   {"diff_dst", Access::kRead},
                   {"diff_gate", Access::kWrite},
                   {"diff_up", Access::kWrite}},
     .reference = SwigluBackwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(SwigluBackwardFast)(call); },
     .problems = Problems<3, 2>,
     .summary = "du = dy * (g*s), dg = (dy*u) * (s * fma(g, 1-s, 1)), s = sigmoid(g); no sum"});

const Kernel& kGeluForward =
    RegisterKernel({.name = "gelu.forward",
                    .version = 1,
                    .arguments = kForwardArguments,
                    .reference = GeluForwardReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(GeluForwardFast)(call); },
                    .problems = Problems<1, 1>,
                    .summary = "y = (0.5*x) * (1 + erf(x*c)); no sum"});

const Kernel& kGeluBackward =
    RegisterKernel({.name = "gelu.backward",
                    .version = 1,
                    .arguments = kBackwardArguments,
                    .reference = GeluBackwardReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(GeluBackwardFast)(call); },
                    .problems = Problems<2, 1>,
                    .summary = "dx = dy * derivative of gelu; no sum"});

const Kernel& kGeluTanhForward =
    RegisterKernel({.name = "gelu_tanh.forward",
                    .version = 1,
                    .arguments = kForwardArguments,
                    .reference = GeluTanhForwardReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(GeluTanhForwardFast)(call); },
                    .problems = Problems<1, 1>,
                    .summary = "y = (0.5*x) * (1 + tanh(k * (x + a*((x*x)*x)))); no sum"});

const Kernel& kGeluTanhBackward =
    RegisterKernel({.name = "gelu_tanh.backward",
                    .version = 1,
                    .arguments = kBackwardArguments,
                    .reference = GeluTanhBackwardReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(GeluTanhBackwardFast)(call); },
                    .problems = Problems<2, 1>,
                    .summary = "dx = dy * derivative of gelu_tanh; no sum"});

void SwigluForward(const TensorView& gate, const TensorView& up, const TensorView& dst) {
  Run(Call(kSwigluForward).Read(gate).Read(up).Write(dst));
}

void SwigluBackward(const TensorView& gate, const TensorView& up, const TensorView& diff_dst,
                    const TensorView& diff_gate, const TensorView& diff_up) {
  Run(Call(kSwigluBackward).Read(gate).Read(up).Read(diff_dst).Write(diff_gate).Write(diff_up));
}

void GeluForward(const TensorView& src, const TensorView& dst, GeluForm form) {
  Run(Call(form == GeluForm::kErf ? kGeluForward : kGeluTanhForward).Read(src).Write(dst));
}

void GeluBackward(const TensorView& src, const TensorView& diff_dst, const TensorView& diff_src,
                  GeluForm form) {
  Run(Call(form == GeluForm::kErf ? kGeluBackward : kGeluTanhBackward)
          .Read(src)
          .Read(diff_dst)
          .Write(diff_src));
}

}  // namespace samestep
#endif  // HWY_ONCE
