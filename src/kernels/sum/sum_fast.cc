// Sums of tensors in vectors; tasks own pieces of rows.
#include <algorithm>

#include "base/parallel_for.h"
#include "kernels/sum/sum_kernels.h"
#include "numerics/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum/sum_fast.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void AddRow(const float* left, const float* right, float* dst, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, left + i), hn::LoadU(d, right + i)), d, dst + i);
  }
  for (; i < count; ++i) dst[i] = left[i] + right[i];
}

// The tree over `lanes` addends, from left to right like a binary counter: after lane t, as many pairs are
// complete as t has trailing ones; at the end whatever is left is added, the odd ones out first.
template <class D>
HWY_INLINE hn::Vec<D> TreeOfVectors(D d, const float* src, int64_t lane_stride, int64_t lanes) {
  hn::Vec<D> finished[8];  // 64 lanes need seven
  int depth = 0;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    hn::Vec<D> sum = hn::LoadU(d, src + lane * lane_stride);
    for (int64_t ones = lane; (ones & 1) != 0; ones >>= 1) sum = hn::Add(finished[--depth], sum);
    finished[depth++] = sum;
  }
  hn::Vec<D> sum = finished[--depth];
  while (depth > 0) sum = hn::Add(finished[--depth], sum);
  return sum;
}

void TreeRow(const float* src, int64_t lane_stride, int64_t lanes, float* dst, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + width <= count; i += width) {
    hn::StoreU(TreeOfVectors(d, src + i, lane_stride, lanes), d, dst + i);
  }
  for (; i < count; ++i) hn::StoreU(TreeOfVectors(one, src + i, lane_stride, lanes), one, dst + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {

HWY_EXPORT(AddRow);
HWY_EXPORT(TreeRow);

namespace {

// Calls piece(row, first column, count) for pieces of about 16 KiB, several short rows a task.
template <typename Piece>
void ForPieces(int64_t rows, int64_t columns, const Piece& piece) {
  constexpr int64_t kFloats = 16 << 10;
  if (rows == 0 || columns == 0) return;
  const int64_t per_row = (columns + kFloats - 1) / kFloats;
  const int64_t row_group = std::max<int64_t>(1, kFloats / columns);
  const int64_t groups = (rows + row_group - 1) / row_group;
  ParallelFor(groups * per_row, [&](int64_t task) {
    const int64_t first = task % per_row * kFloats;
    const int64_t begin = task / per_row * row_group;
    for (int64_t row = begin; row < std::min(begin + row_group, rows); ++row) {
      piece(row, first, std::min(kFloats, columns - first));
    }
  });
}

}  // namespace

void AddFast(const Call& call) {
  const TensorView &left = call.view(0), &right = call.view(1), &dst = call.view(2);
  SAMESTEP_CHECK_EQ(left.elements(), dst.elements());
  SAMESTEP_CHECK_EQ(right.elements(), dst.elements());
  const bool flat = left.contiguous() && right.contiguous() && dst.contiguous();
  const int64_t rows = flat ? 1 : dst.rows(), columns = flat ? dst.elements() : dst.columns();
  const int64_t left_stride = flat ? 0 : left.row_stride();
  const int64_t right_stride = flat ? 0 : right.row_stride();
  const int64_t dst_stride = flat ? 0 : dst.row_stride();
  ForPieces(rows, columns, [&](int64_t row, int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(AddRow)
    (left.f32() + row * left_stride + first, right.f32() + row * right_stride + first,
     dst.f32() + row * dst_stride + first, count);
  });
}

void AddBiasFast(const Call& call) {
  const TensorView &src = call.view(0), &bias = call.view(1), &dst = call.view(2);
  SAMESTEP_CHECK_EQ(src.elements(), dst.elements());
  SAMESTEP_CHECK_EQ(src.columns(), dst.columns());
  SAMESTEP_CHECK_EQ(bias.elements(), dst.columns());
  const int64_t src_stride = src.row_stride(), dst_stride = dst.row_stride();
  ForPieces(dst.rows(), dst.columns(), [&](int64_t row, int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(AddRow)
    (src.f32() + row * src_stride + first, bias.f32() + first, dst.f32() + row * dst_stride + first, count);
  });
}

void SumTreeFast(const Call& call) {
  const TreeArguments a(call);
  ForPieces(a.rows, a.columns, [&](int64_t row, int64_t first, int64_t count) {
    HWY_DYNAMIC_DISPATCH(TreeRow)
    (a.src + row * a.src_stride + first, a.lane_stride, a.lanes, a.dst + row * a.dst_stride + first, count);
  });
}

}  // namespace samestep
#endif  // HWY_ONCE
