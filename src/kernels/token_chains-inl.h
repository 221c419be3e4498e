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

// The chains of columns [i, i + kVectors vectors) over a block's rows, into sums[k] + i for each accumulator
// k.
template <int kSums, int kVectors, class D, class Step>
HWY_INLINE void ChainColumns(D d, const TokenBlock& block, int64_t i, float* const (&sums)[kSums],
                             const Step& step) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr int64_t kLanes = hn::MaxLanes(D());
  hn::Vec<D> chains[kVectors][kSums];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    for (int k = 0; k < kSums; ++k) chains[v][k] = hn::Zero(d);
  }
  for (int64_t row = block.row; row < block.row + block.count; ++row) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) step(d, row, i + v * kLanes, chains[v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    for (int k = 0; k < kSums; ++k) hn::StoreU(chains[v][k], d, sums[k] + i + v * kLanes);
  }
}

// step(d, row, i, chains): adds the term of `row` to chains[k] of the columns from i.
template <int kSums, class Step>
HWY_INLINE void TokenChains(const TokenSum& order, int64_t rows, int64_t columns,
                            const TensorView (&accumulators)[kSums], const Step& step) {
  const hwy::HWY_NAMESPACE::ScalableTag<float> d;
  constexpr int64_t kLanes = hwy::HWY_NAMESPACE::MaxLanes(d);
  constexpr int kVectors = 4;
  const std::vector<TokenBlock> blocks = TokenBlocks(order, rows);
  const auto block_count = static_cast<int64_t>(blocks.size());
  // A block's chains lie side by side, first all of sum 0.
  std::vector<float> chains(static_cast<size_t>(block_count * kSums * columns));
  constexpr int64_t kStrip = 128;
  const int64_t strips = (columns + kStrip - 1) / kStrip;
  ParallelFor(block_count * strips, [&](int64_t task) HWY_ATTR {
    const int64_t b = task / strips, first = task % strips * kStrip;
    const int64_t end = std::min(columns, first + kStrip);
    float* sums[kSums];
    for (int k = 0; k < kSums; ++k) sums[k] = chains.data() + (b * kSums + k) * columns;
    int64_t i = first;
    for (; i + kVectors * kLanes <= end; i += kVectors * kLanes) {
      ChainColumns<kSums, kVectors>(d, blocks[b], i, sums, step);
    }
    for (; i + kLanes <= end; i += kLanes) ChainColumns<kSums, 1>(d, blocks[b], i, sums, step);
    for (; i < end; ++i) {
      ChainColumns<kSums, 1>(hwy::HWY_NAMESPACE::CappedTag<float, 1>(), blocks[b], i, sums, step);
    }
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
