#include "kernels/layer_norm/layer_norm_reference.h"

#include <cmath>
#include <vector>

#include "numerics/sums.h"

namespace samestep {

void LayerNormForwardReference(const Call& call) {
  const TensorView &src = call.view(0), &gain = call.view(1), &bias = call.view(2), &dst = call.view(3);
  const TensorView &mean = call.view(4), &rstd = call.view(5);
  const float eps = call.Real("eps");
  const int64_t features = src.columns();
  std::vector<float> xc(static_cast<size_t>(features));
  for (int64_t row = 0; row < src.rows(); ++row) {
    const float* x = src.f32() + row * src.row_stride();
    float* y = dst.f32() + row * dst.row_stride();
    const float mu = RowSum({x}, features) / static_cast<float>(features);
    for (int64_t i = 0; i < features; ++i) xc[i] = x[i] - mu;
    const float variance = RowDot({xc.data()}, {xc.data()}, features) / static_cast<float>(features);
    const float r = 1 / std::sqrt(variance + eps);
    for (int64_t i = 0; i < features; ++i) {
      const float xh = xc[i] * r;
      y[i] = std::fma(xh, gain.f32()[i], bias.f32()[i]);
    }
    mean.f32()[row] = mu;
    rstd.f32()[row] = r;
  }
}

void LayerNormBackwardReference(const Call& call) {
  const TensorView &src = call.view(0), &gain = call.view(1), &mean = call.view(2), &rstd = call.view(3);
  const TensorView &diff_dst = call.view(4), &diff_src = call.view(6);
  const TensorView& skip = call.argument(6).access == Access::kUpdate ? diff_src : call.view(5);
  const int64_t features = src.columns();
  const auto count = static_cast<float>(features);
  std::vector<float> xh(static_cast<size_t>(features)), dxh(static_cast<size_t>(features));
  for (int64_t row = 0; row < src.rows(); ++row) {
    const float* x = src.f32() + row * src.row_stride();
    const float* dy = diff_dst.f32() + row * diff_dst.row_stride();
    float* out = diff_src.f32() + row * diff_src.row_stride();
    const float mu = mean.f32()[row], r = rstd.f32()[row];
    for (int64_t i = 0; i < features; ++i) {
      xh[i] = (x[i] - mu) * r;
      dxh[i] = dy[i] * gain.f32()[i];
    }
    const float h = RowSum({dxh.data()}, features) / count;
    const float q = RowDot({dxh.data()}, {xh.data()}, features) / count;
    for (int64_t i = 0; i < features; ++i) {
      const float dx = r * std::fma(-xh[i], q, dxh[i] - h);
      out[i] = skip.present() ? skip.f32()[row * skip.row_stride() + i] + dx : dx;
    }
  }
}

void LayerNormBackwardParametersReference(const Call& call) {
  const TensorView &src = call.view(0), &mean = call.view(1), &rstd = call.view(2), &diff_dst = call.view(3);
  const TensorView &diff_gain = call.view(4), &diff_bias = call.view(5);
  const int64_t features = src.columns();
  for (const TokenBlock& block : TokenBlocks(GetTokenSum(call), src.rows())) {
    for (int64_t i = 0; i < features; ++i) {
      float gain_sum = 0, bias_sum = 0;
      for (int64_t row = block.row; row < block.row + block.count; ++row) {
        const float dy = diff_dst.f32()[row * diff_dst.row_stride() + i];
        const float xh = (src.f32()[row * src.row_stride() + i] - mean.f32()[row]) * rstd.f32()[row];
        gain_sum = std::fma(dy, xh, gain_sum);
        bias_sum = std::fma(dy, 1.0f, bias_sum);
      }
      float& gain_lane = diff_gain.f32()[block.lane * diff_gain.row_stride() + i];
      float& bias_lane = diff_bias.f32()[block.lane * diff_bias.row_stride() + i];
      gain_lane = block.sets ? gain_sum : gain_lane + gain_sum;
      bias_lane = block.sets ? bias_sum : bias_lane + bias_sum;
    }
  }
}

}  // namespace samestep
