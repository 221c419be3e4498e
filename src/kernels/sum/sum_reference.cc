#include "kernels/sum/sum_kernels.h"
#include "numerics/sums.h"

namespace samestep {

void AddReference(const Call& call) {
  const TensorView &left = call.view(0), &right = call.view(1), &dst = call.view(2);
  for (int64_t r = 0; r < dst.rows(); ++r) {
    for (int64_t c = 0; c < dst.columns(); ++c) {
      dst.f32()[r * dst.row_stride() + c] =
          left.f32()[r * left.row_stride() + c] + right.f32()[r * right.row_stride() + c];
    }
  }
}

void AddBiasReference(const Call& call) {
  const TensorView &src = call.view(0), &bias = call.view(1), &dst = call.view(2);
  for (int64_t r = 0; r < dst.rows(); ++r) {
    for (int64_t c = 0; c < dst.columns(); ++c) {
      dst.f32()[r * dst.row_stride() + c] = src.f32()[r * src.row_stride() + c] + bias.f32()[c];
    }
  }
}

void SumTreeReference(const Call& call) {
  const TreeArguments a(call);
  std::vector<float> parts(static_cast<size_t>(a.lanes));
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.columns; ++c) {
      for (int64_t lane = 0; lane < a.lanes; ++lane) {
        parts[static_cast<size_t>(lane)] = a.src[lane * a.lane_stride + r * a.src_stride + c];
      }
      a.dst[r * a.dst_stride + c] = Tree(parts);
    }
  }
}

}  // namespace samestep
