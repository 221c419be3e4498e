// token_chains-inl.h: token sums of many columns at once, for the gradients of gains and biases.
//
//   TokenChains<1>(order, rows, columns, {accumulators}, {stride}, [&](auto d, int64_t row, int64_t i, auto*
//   sums)
//       HWY_ATTR { sums[0] = ExactMulAdd(d, LoadU(d, dy + row * s + i), xh, sums[0]); });
//
// Blocks of rows times strips of columns are tasks of their own; the chains of a lane's blocks are then added
// in their order.
//
// Determinism: numerics page, "Token sum": a chain for each block and column, ascending.
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_TOKEN_CHAINS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_TOKEN_CHAINS_INL_H_
#undef SAMESTEP_KERNELS_TOKEN_CHAINS_INL_H_
#else
#define SAMESTEP_KERNELS_TOKEN_CHAINS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/parallel_for.h"
#include "kernels/row_tasks.h"
#include "kernels/token_sum.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

// Continues the chains sums[k] + i of one vector of columns by rows [row, row + kRows).
template <int kSums, int kRows, class D, class Step>
HWY_INLINE void ContinueChains(D d, int64_t row, int64_t i, float* const (&sums)[kSums], const Step& step) {
  namespace hn = hwy::HWY_NAMESPACE;
  hn::Vec<D> chains[kSums];
  for (int k = 0; k < kSums; ++k) chains[k] = hn::LoadU(d, sums[k] + i);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) step(d, row + r, i, chains);
  for (int k = 0; k < kSums; ++k) hn::StoreU(chains[k], d, sums[k] + i);
}

// The same for columns [begin, end). Rows of memory are read from left to right, several at once.
template <int kSums, int kRows, class Step>
HWY_INLINE void ContinueChains(int64_t row, int64_t begin, int64_t end, float* const (&sums)[kSums],
                               const Step& step) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) ContinueChains<kSums, kRows>(d, row, i, sums, step);
  for (; i < end; ++i) ContinueChains<kSums, kRows>(hn::CappedTag<float, 1>(), row, i, sums, step);
}

// step(d, row, i, chains): adds the term of `row` to chains[k] of the columns from i.
template <int kSums, class Step>
HWY_INLINE void TokenChains(const TokenSum& order, int64_t rows, int64_t columns,
                            const TensorView (&accumulators)[kSums], const Step& step) {
  const std::vector<TokenBlock> blocks = TokenBlocks(order, rows);
  const auto block_count = static_cast<int64_t>(blocks.size());
  // A block's chains lie side by side, first all of sum 0.
  std::vector<float> chains(static_cast<size_t>(block_count * kSums * columns));
  constexpr int64_t kStrip = 256;
  const int64_t strips = (columns + kStrip - 1) / kStrip;
  ParallelFor(block_count * strips, [&](int64_t task) HWY_ATTR {
    const int64_t b = task / strips, begin = task % strips * kStrip;
    const int64_t end = std::min(columns, begin + kStrip);
    float* sums[kSums];
    for (int k = 0; k < kSums; ++k) sums[k] = chains.data() + (b * kSums + k) * columns;
    constexpr int kRows = 8;
    const int64_t last = blocks[b].row + blocks[b].count;
    int64_t row = blocks[b].row;
    for (; row + kRows <= last; row += kRows) ContinueChains<kSums, kRows>(row, begin, end, sums, step);
    for (; row < last; ++row) ContinueChains<kSums, 1>(row, begin, end, sums, step);
  });
  for (int64_t b = 0; b < block_count; ++b) {
    for (int k = 0; k < kSums; ++k) {
      const float* from = chains.data() + (b * kSums + k) * columns;
      float* lane = accumulators[k].f32() + blocks[b].lane * accumulators[k].row_stride();
      for (int64_t i = 0; i < columns; ++i) lane[i] = blocks[b].sets ? from[i] : lane[i] + from[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
