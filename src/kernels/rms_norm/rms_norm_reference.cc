#include "kernels/rms_norm/rms_norm_reference.h"

#include <cmath>
#include <vector>

#include "numerics/sums.h"

namespace samestep {

void RmsNormForwardReference(const Call& call) {
  const TensorView &src = call.view(0), &gain = call.view(1), &dst = call.view(2), &rstd = call.view(3);
  const float eps = call.Real("eps");
  const int64_t features = src.columns();
  for (int64_t row = 0; row < src.rows(); ++row) {
    const float* x = src.f32() + row * src.row_stride();
    float* y = dst.f32() + row * dst.row_stride();
    const float ms = RowDot({x}, {x}, features) / static_cast<float>(features);
    const float r = 1 / std::sqrt(ms + eps);
    for (int64_t i = 0; i < features; ++i) {
      const float xh = x[i] * r;
      y[i] = xh * gain.f32()[i];
    }
    rstd.f32()[row] = r;
  }
}

void RmsNormBackwardReference(const Call& call) {
  const TensorView &src = call.view(0), &gain = call.view(1), &rstd = call.view(2), &diff_dst = call.view(3);
  const TensorView& diff_src = call.view(5);
  const TensorView& skip = call.argument(5).access == Access::kUpdate ? diff_src : call.view(4);
  const int64_t features = src.columns();
  std::vector<float> xh(static_cast<size_t>(features)), dxh(static_cast<size_t>(features));
  for (int64_t row = 0; row < src.rows(); ++row) {
    const float* x = src.f32() + row * src.row_stride();
    const float* dy = diff_dst.f32() + row * diff_dst.row_stride();
    float* out = diff_src.f32() + row * diff_src.row_stride();
    const float r = rstd.f32()[row];
    for (int64_t i = 0; i < features; ++i) {
      xh[i] = x[i] * r;
      dxh[i] = dy[i] * gain.f32()[i];
    }
    const float q = RowDot({dxh.data()}, {xh.data()}, features) / static_cast<float>(features);
    for (int64_t i = 0; i < features; ++i) {
      const float dx = r * std::fma(-xh[i], q, dxh[i]);
      out[i] = skip.present() ? skip.f32()[row * skip.row_stride() + i] + dx : dx;
    }
  }
}

void RmsNormBackwardGainReference(const Call& call) {
  const TensorView &src = call.view(0), &rstd = call.view(1), &diff_dst = call.view(2),
                   &diff_gain = call.view(3);
  const int64_t features = src.columns();
  for (const TokenBlock& block : TokenBlocks(GetTokenSum(call), src.rows())) {
    for (int64_t i = 0; i < features; ++i) {
      float sum = 0;
      for (int64_t row = block.row; row < block.row + block.count; ++row) {
        const float xh = src.f32()[row * src.row_stride() + i] * rstd.f32()[row];
        sum = std::fma(diff_dst.f32()[row * diff_dst.row_stride() + i], xh, sum);
      }
      float& lane = diff_gain.f32()[block.lane * diff_gain.row_stride() + i];
      lane = block.sets ? sum : lane + sum;
    }
  }
}

}  // namespace samestep
