// The gradient of a bias: columns in vectors, tasks own columns.
#include <algorithm>

#include "base/parallel_for.h"
#include "kernels/linear/linear_arguments.h"
#include "kernels/linear/linear_kernels.h"
#include "numerics/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/bias_backward.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// chain(dy, 1) adds each term once: fma(dy, 1, s) = fl(dy + s). Columns [begin, end).
void SumColumns(const TokenSumArguments& a, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  constexpr int kVectors = 4;
  const int64_t stride = a.diff_dst.row_stride();
  for (const TokenBlock& block : a.blocks) {
    const float* first = a.diff_dst.f32() + block.row * stride;
    float* sums = a.accumulators.f32() + block.lane * a.lane_stride;
    int64_t c = begin;
    for (; c + kVectors * kLanes <= end; c += kVectors * kLanes) {
      V chains[kVectors];
      for (V& chain : chains) chain = hn::Zero(d);
      for (int64_t r = 0; r < block.count; ++r) {
        const float* row = first + r * stride + c;
        for (int v = 0; v < kVectors; ++v) {
          chains[v] = hn::Add(hn::LoadU(d, row + v * kLanes), chains[v]);
        }
      }
      for (int v = 0; v < kVectors; ++v) {
        float* to = sums + c + v * kLanes;
        hn::StoreU(block.sets ? chains[v] : hn::Add(hn::LoadU(d, to), chains[v]), d, to);
      }
    }
    for (; c < end; ++c) {
      float chain = 0;
      for (int64_t r = 0; r < block.count; ++r) chain = first[r * stride + c] + chain;
      sums[c] = block.sets ? chain : sums[c] + chain;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {

HWY_EXPORT(SumColumns);

void BiasBackwardFast(const Call& call) {
  const TokenSumArguments a(call, 0, 1, 1);
  constexpr int64_t kColumns = 128;  // of a task
  ParallelFor((a.outputs + kColumns - 1) / kColumns, [&](int64_t task) {
    const int64_t begin = task * kColumns;
    HWY_DYNAMIC_DISPATCH(SumColumns)(a, begin, std::min(begin + kColumns, a.outputs));
  });
}

}  // namespace samestep
#endif  // HWY_ONCE
