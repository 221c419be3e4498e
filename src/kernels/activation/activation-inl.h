// activation-inl.h: the activations' kernels for the instruction set that is being compiled.
//
// Determinism: the bits of activation_reference.cc.
#include "kernels/rows-inl.h"
#include "numerics/elementary-inl.h"
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_ACTIVATION_INL_H_
#undef SAMESTEP_KERNELS_ACTIVATION_INL_H_
#else
#define SAMESTEP_KERNELS_ACTIVATION_INL_H_
#endif

#include "kernels/activation/activation.h"
#include "kernels/row_tasks.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Applies `function` (of MapElements) to the elements of the call's first kSources arguments, into the rest.
template <int kSources, int kDestinations, class Function>
HWY_INLINE void MapCall(const Call& call, const Function& function) {
  float* data[kSources + kDestinations];
  int64_t stride[kSources + kDestinations];
  for (int k = 0; k < kSources + kDestinations; ++k) {
    data[k] = call.view(k).f32();
    stride[k] = call.view(k).row_stride();
  }
  const int64_t features = call.view(0).columns();
  ForRowGroups(call.view(0).rows(), features, [&](int64_t begin, int64_t end) HWY_ATTR {
    const float* sources[kSources];
    float* destinations[kDestinations];
    for (int64_t row = begin; row < end; ++row) {
      for (int k = 0; k < kSources; ++k) sources[k] = data[k] + row * stride[k];
      for (int k = 0; k < kDestinations; ++k) {
        destinations[k] = data[kSources + k] + row * stride[kSources + k];
      }
      MapElements<kSources, kDestinations>(features, sources, destinations, function);
    }
  });
}

void SwigluForwardFast(const Call& call) {
  MapCall<2, 1>(call, [](auto d, const auto* in, auto* out) HWY_ATTR {
    const auto a = hn::Mul(in[0], Sigmoid(d, in[0]));
    out[0] = hn::Mul(a, in[1]);
  });
}

void SwigluBackwardFast(const Call& call) {
  MapCall<3, 2>(call, [](auto d, const auto* in, auto* out) HWY_ATTR {
    const auto g = in[0], u = in[1], dy = in[2], one = hn::Set(d, 1.0f);
    const auto s = Sigmoid(d, g);
    const auto slope = hn::Mul(s, ExactMulAdd(d, g, hn::Sub(one, s), one));
    out[0] = hn::Mul(hn::Mul(dy, u), slope);
    out[1] = hn::Mul(dy, hn::Mul(g, s));
  });
}

void GeluForwardFast(const Call& call) {
  MapCall<1, 1>(call, [](auto d, const auto* in, auto* out) HWY_ATTR { out[0] = Gelu(d, in[0]); });
}

void GeluBackwardFast(const Call& call) {
  MapCall<2, 1>(call, [](auto d, const auto* in, auto* out)
                          HWY_ATTR { out[0] = hn::Mul(in[1], GeluDerivative(d, in[0])); });
}

void GeluTanhForwardFast(const Call& call) {
  MapCall<1, 1>(call, [](auto d, const auto* in, auto* out) HWY_ATTR { out[0] = GeluTanh(d, in[0]); });
}

void GeluTanhBackwardFast(const Call& call) {
  MapCall<2, 1>(call, [](auto d, const auto* in, auto* out)
                          HWY_ATTR { out[0] = hn::Mul(in[1], GeluTanhDerivative(d, in[0])); });
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
