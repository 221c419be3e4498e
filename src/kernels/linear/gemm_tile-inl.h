// gemm_tile-inl.h: one tile of the output in registers: a chain for each element, then set or added.
#include "numerics/targets.h"
//
#include "hwy/highway.h"
#include "kernels/linear/gemm_sizes-inl.h"
#include "numerics/fma-inl.h"

#if defined(SAMESTEP_KERNELS_LINEAR_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_LINEAR_GEMM_TILE_INL_H_
#undef SAMESTEP_KERNELS_LINEAR_GEMM_TILE_INL_H_
#else
#define SAMESTEP_KERNELS_LINEAR_GEMM_TILE_INL_H_
#endif

#include "kernels/linear/gemm_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <int kVectors>
HWY_NOINLINE void ComputeTile(const TileTask& task) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  using V = hn::Vec<decltype(d)>;
  float* const output = task.output;
  const int64_t stride = task.stride;
  for (int r = 0; r < kTileRows; ++r) {
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(output + r * stride + v * kLanes);
  }
  V sums[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  const float* left = task.left;
  const float* right = task.right;
  for (int64_t k = 0; k < task.count; ++k) {
    V columns[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::Load(d, right + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
      const V row = hn::Set(d, left[r]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums[r][v] = ExactMulAdd(d, row, columns[v], sums[r][v]);
    }
    left += kTileRows;
    right += kVectors * kLanes;
  }
  if (!task.sets) {
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::Add(hn::LoadU(d, output + r * stride + v * kLanes), sums[r][v]);
      }
    }
  }
  if (task.bias != nullptr) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const V bias = hn::LoadU(d, task.bias + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) sums[r][v] = hn::Add(sums[r][v], bias);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, output + r * stride + v * kLanes);
  }
}

HWY_INLINE void ComputeTileOfWidth(int64_t vectors, const TileTask& task) {
  if constexpr (kTileVectors >= 3) {
    if (vectors == 3) return ComputeTile<3>(task);
  }
  if (vectors == 2) return ComputeTile<2>(task);
  return ComputeTile<1>(task);
}

// Tiles at the edge are computed whole, since panels are padded, but only what is there is written.
inline void Tile(const TileTask& task) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const int64_t vectors = (task.columns + kLanes - 1) / kLanes;
  if (task.rows == kTileRows && task.columns == vectors * kLanes) return ComputeTileOfWidth(vectors, task);
  float edge[kTileRows * kTileVectors * kLanes];
  TileTask whole = task;
  whole.output = edge;
  whole.stride = vectors * kLanes;
  whole.sets = true;
  whole.bias = nullptr;
  ComputeTileOfWidth(vectors, whole);
  for (int64_t r = 0; r < task.rows; ++r) {
    float* output = task.output + r * task.stride;
    for (int64_t c = 0; c < task.columns; ++c) {
      const float chain = edge[r * whole.stride + c];
      const float sum = task.sets ? chain : output[c] + chain;
      output[c] = task.bias != nullptr ? sum + task.bias[c] : sum;
    }
  }
}

inline void Merge(const MergeTask& task) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < task.rows; ++r) {
    float* output = task.output + r * task.stride;
    const float* addend = task.addend + r * task.addend_stride;
    int64_t c = 0;
    for (; c + lanes <= task.columns; c += lanes) {
      auto sum = hn::Add(hn::LoadU(d, output + c), hn::LoadU(d, addend + c));
      if (task.bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, task.bias + c));
      hn::StoreU(sum, d, output + c);
    }
    for (; c < task.columns; ++c) {
      const float sum = output[c] + addend[c];
      output[c] = task.bias != nullptr ? sum + task.bias[c] : sum;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
