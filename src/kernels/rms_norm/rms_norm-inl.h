// rms_norm-inl.h: rms_norm's kernels for the instruction set that is being compiled.
//
// Determinism: the bits of rms_norm_reference.cc.
#include "kernels/rows-inl.h"
#include "kernels/token_chains-inl.h"
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_RMS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_RMS_NORM_INL_H_
#undef SAMESTEP_KERNELS_RMS_NORM_INL_H_
#else
#define SAMESTEP_KERNELS_RMS_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/rms_norm/rms_norm.h"
#include "kernels/row_tasks.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float RmsNormForwardRow(const float* HWY_RESTRICT x, const float* HWY_RESTRICT gain,
                                   float* HWY_RESTRICT y, int64_t features, float eps) {
  const float squares = StripedRowSum(features, [&](auto d, int64_t i, auto sum) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return ExactMulAdd(d, v, v, sum);
  });
  const float ms = squares / static_cast<float>(features);
  const float r = 1 / std::sqrt(ms + eps);
  ForElements(features, [&](auto d, int64_t i) HWY_ATTR {
    const auto xh = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, r));
    hn::StoreU(hn::Mul(xh, hn::LoadU(d, gain + i)), d, y + i);
  });
  return r;
}

void RmsNormForwardFast(const Call& call) {
  const TensorView &src = call.view(0), &gain = call.view(1), &dst = call.view(2), &rstd = call.view(3);
  const float eps = call.Real("eps");
  const int64_t features = src.columns(), src_stride = src.row_stride(), dst_stride = dst.row_stride();
  const float *x = src.f32(), *g = gain.f32();
  float *y = dst.f32(), *r = rstd.f32();
  ForRowGroups(src.rows(), features, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      r[row] = RmsNormForwardRow(x + row * src_stride, g, y + row * dst_stride, features, eps);
    }
  });
}

// dx may be the same memory as skip.
HWY_INLINE void RmsNormBackwardRow(const float* x, const float* gain, float r, const float* dy,
                                   const float* skip, float* dx, int64_t features) {
  const float dot = StripedRowSum(features, [&](auto d, int64_t i, auto sum) HWY_ATTR {
    const auto xh = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, r));
    const auto dxh = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, gain + i));
    return ExactMulAdd(d, dxh, xh, sum);
  });
  const float q = dot / static_cast<float>(features);
  ForElements(features, [&](auto d, int64_t i) HWY_ATTR {
    const auto xh = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, r));
    const auto dxh = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, gain + i));
    auto out = hn::Mul(hn::Set(d, r), ExactNegMulAdd(d, xh, hn::Set(d, q), dxh));
    if (skip != nullptr) out = hn::Add(hn::LoadU(d, skip + i), out);
    hn::StoreU(out, d, dx + i);
  });
}

void RmsNormBackwardFast(const Call& call) {
  const TensorView &src = call.view(0), &gain = call.view(1), &rstd = call.view(2), &diff_dst = call.view(3);
  const TensorView& diff_src = call.view(5);
  const TensorView& skip = call.argument(5).access == Access::kUpdate ? diff_src : call.view(4);
  const int64_t features = src.columns(), src_stride = src.row_stride(), dst_stride = diff_dst.row_stride();
  const int64_t out_stride = diff_src.row_stride(), skip_stride = skip.present() ? skip.row_stride() : 0;
  const float *x = src.f32(), *g = gain.f32(), *r = rstd.f32(), *dy = diff_dst.f32();
  const float* s = skip.present() ? skip.f32() : nullptr;
  float* dx = diff_src.f32();
  ForRowGroups(src.rows(), features, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      RmsNormBackwardRow(x + row * src_stride, g, r[row], dy + row * dst_stride,
                         s == nullptr ? nullptr : s + row * skip_stride, dx + row * out_stride, features);
    }
  });
}

void RmsNormBackwardGainFast(const Call& call) {
  const TensorView &src = call.view(0), &rstd = call.view(1), &diff_dst = call.view(2);
  const float *x = src.f32(), *r = rstd.f32(), *dy = diff_dst.f32();
  const int64_t src_stride = src.row_stride(), dst_stride = diff_dst.row_stride();
  TokenChains<1>(GetTokenSum(call), src.rows(), src.columns(), {call.view(3)},
                 [=](auto d, int64_t row, int64_t i, auto* sums) HWY_ATTR {
                   const auto xh = hn::Mul(hn::LoadU(d, x + row * src_stride + i), hn::Set(d, r[row]));
                   sums[0] = ExactMulAdd(d, hn::LoadU(d, dy + row * dst_stride + i), xh, sums[0]);
                 });
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
