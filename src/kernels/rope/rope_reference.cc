#include "kernels/rope/rope_reference.h"

#include <cmath>

namespace samestep {
namespace {

void Turn(const Call& call, float direction) {
  const TensorView &x = call.view(0), &cos = call.view(1), &sin = call.view(2);
  const int64_t head_size = call.Integer("head_size"), half = head_size / 2, tokens = x.shape[1];
  for (int64_t row = 0; row < x.rows(); ++row) {
    const int64_t position = row % tokens;
    for (int64_t head = 0; head < x.columns() / head_size; ++head) {
      float* const features = x.f32() + row * x.row_stride() + head * head_size;
      for (int64_t i = 0; i < half; ++i) {
        const float c = cos.f32()[position * half + i], s = direction * sin.f32()[position * half + i];
        const float x1 = features[i], x2 = features[half + i];
        features[i] = std::fma(x1, c, -(x2 * s));
        features[half + i] = std::fma(x2, c, x1 * s);
      }
    }
  }
}

}  // namespace

void RopeForwardReference(const Call& call) { Turn(call, 1); }
void RopeBackwardReference(const Call& call) { Turn(call, -1); }

}  // namespace samestep
