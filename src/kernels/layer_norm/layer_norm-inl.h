// layer_norm-inl.h: layer_norm's kernels for the instruction set that is being compiled.
//
// Determinism: the bits of layer_norm_reference.cc.
#include "kernels/rows-inl.h"
#include "kernels/token_chains-inl.h"
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_LAYER_NORM_INL_H_
#undef SAMESTEP_KERNELS_LAYER_NORM_INL_H_
#else
#define SAMESTEP_KERNELS_LAYER_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/row_tasks.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct LayerNormRow {
  float mean, rstd;
};

HWY_INLINE LayerNormRow LayerNormForwardRow(const float* HWY_RESTRICT x, const float* HWY_RESTRICT gain,
                                            const float* HWY_RESTRICT bias, float* HWY_RESTRICT y,
                                            int64_t features, float eps) {
  const auto count = static_cast<float>(features);
  const float sum = StripedRowSum(
      features, [&](auto d, int64_t i, auto s) HWY_ATTR { return hn::Add(s, hn::LoadU(d, x + i)); });
  const float mu = sum / count;
  const float squares = StripedRowSum(features, [&](auto d, int64_t i, auto s) HWY_ATTR {
    const auto xc = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mu));
    return ExactMulAdd(d, xc, xc, s);
  });
  const float r = 1 / std::sqrt(squares / count + eps);
  ForElements(features, [&](auto d, int64_t i) HWY_ATTR {
    const auto xc = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mu));
    const auto xh = hn::Mul(xc, hn::Set(d, r));
    hn::StoreU(ExactMulAdd(d, xh, hn::LoadU(d, gain + i), hn::LoadU(d, bias + i)), d, y + i);
  });
  return {mu, r};
}

void LayerNormForwardFast(const Call& call) {
  const TensorView &src = call.view(0), &dst = call.view(3);
  const float eps = call.Real("eps");
  const int64_t features = src.columns(), src_stride = src.row_stride(), dst_stride = dst.row_stride();
  const float *x = src.f32(), *g = call.view(1).f32(), *b = call.view(2).f32();
  float *y = dst.f32(), *mean = call.view(4).f32(), *rstd = call.view(5).f32();
  ForRowGroups(src.rows(), features, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      const LayerNormRow result =
          LayerNormForwardRow(x + row * src_stride, g, b, y + row * dst_stride, features, eps);
      mean[row] = result.mean;
      rstd[row] = result.rstd;
    }
  });
}

// dx may be the same memory as skip.
HWY_INLINE void LayerNormBackwardRow(const float* x, const float* gain, LayerNormRow saved, const float* dy,
                                     const float* skip, float* dx, int64_t features) {
  const auto count = static_cast<float>(features);
  const auto xh_at = [&](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, saved.mean)), hn::Set(d, saved.rstd));
  };
  const auto dxh_at = [&](auto d, int64_t i)
                          HWY_ATTR { return hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, gain + i)); };
  const float sum =
      StripedRowSum(features, [&](auto d, int64_t i, auto s) HWY_ATTR { return hn::Add(s, dxh_at(d, i)); });
  const float dot = StripedRowSum(features, [&](auto d, int64_t i, auto s) HWY_ATTR {
    return ExactMulAdd(d, dxh_at(d, i), xh_at(d, i), s);
  });
  const float h = sum / count, q = dot / count;
  ForElements(features, [&](auto d, int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(dxh_at(d, i), hn::Set(d, h));
    auto out = hn::Mul(hn::Set(d, saved.rstd), ExactNegMulAdd(d, xh_at(d, i), hn::Set(d, q), centred));
    if (skip != nullptr) out = hn::Add(hn::LoadU(d, skip + i), out);
    hn::StoreU(out, d, dx + i);
  });
}

void LayerNormBackwardFast(const Call& call) {
  const TensorView &src = call.view(0), &diff_dst = call.view(4), &diff_src = call.view(6);
  const TensorView& skip = call.argument(6).access == Access::kUpdate ? diff_src : call.view(5);
  const int64_t features = src.columns(), src_stride = src.row_stride(), dst_stride = diff_dst.row_stride();
  const int64_t out_stride = diff_src.row_stride(), skip_stride = skip.present() ? skip.row_stride() : 0;
  const float *x = src.f32(), *g = call.view(1).f32(), *dy = diff_dst.f32();
  const float *mean = call.view(2).f32(), *rstd = call.view(3).f32();
  const float* s = skip.present() ? skip.f32() : nullptr;
  float* dx = diff_src.f32();
  ForRowGroups(src.rows(), features, [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      LayerNormBackwardRow(x + row * src_stride, g, {mean[row], rstd[row]}, dy + row * dst_stride,
                           s == nullptr ? nullptr : s + row * skip_stride, dx + row * out_stride, features);
    }
  });
}

void LayerNormBackwardParametersFast(const Call& call) {
  const TensorView &src = call.view(0), &diff_dst = call.view(3);
  const float *x = src.f32(), *dy = diff_dst.f32(), *mean = call.view(1).f32(), *rstd = call.view(2).f32();
  const int64_t src_stride = src.row_stride(), dst_stride = diff_dst.row_stride();
  TokenChains<2>(GetTokenSum(call), src.rows(), src.columns(), {call.view(4), call.view(5)},
                 [=](auto d, int64_t row, int64_t i, auto* sums) HWY_ATTR {
                   const auto xc = hn::Sub(hn::LoadU(d, x + row * src_stride + i), hn::Set(d, mean[row]));
                   const auto xh = hn::Mul(xc, hn::Set(d, rstd[row]));
                   const auto y = hn::LoadU(d, dy + row * dst_stride + i);
                   sums[0] = ExactMulAdd(d, y, xh, sums[0]);
                   sums[1] = hn::Add(sums[1], y);  // fma(y, 1, sum)
                 });
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
