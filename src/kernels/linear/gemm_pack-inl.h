// gemm_pack-inl.h: copies rows (columns) of an operand into a panel, term by term. Bits do not change.
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_
#undef SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_
#else
#define SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/linear/gemm_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// panel[k * width + r] = source[r * stride + k] for four rows and four terms.
HWY_INLINE void Transpose4x4(const float* source, int64_t stride, float* panel, int64_t width) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t k = 0; k < 4; ++k) {
    for (int64_t r = 0; r < 4; ++r) panel[k * width + r] = source[r * stride + k];
  }
#else
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = hn::LoadU(d, source);
  const auto b = hn::LoadU(d, source + stride);
  const auto c = hn::LoadU(d, source + 2 * stride);
  const auto e = hn::LoadU(d, source + 3 * stride);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, panel);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, panel + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, panel + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, panel + 3 * width);
#endif
}

// Terms of a row are contiguous: a transposition. In chunks of a cache line a row.
HWY_INLINE void PackContiguous(const PackTask& task, float* panel) {
  constexpr int64_t kChunk = 16, kAhead = 4 * kChunk;
  const float* source = task.source.data;
  const int64_t stride = task.source.stride, width = task.width;
  const int64_t whole_rows = task.used / 4 * 4;
  for (int64_t first = 0; first < task.count; first += kChunk) {
    const int64_t last = std::min(first + kChunk, task.count);
    const int64_t whole_terms = first + (last - first) / 4 * 4;
    for (int64_t r = 0; r < whole_rows; r += 4) {
      for (int64_t i = 0; i < 4; ++i) __builtin_prefetch(source + (r + i) * stride + first + kAhead);
      for (int64_t k = first; k < whole_terms; k += 4) {
        Transpose4x4(source + r * stride + k, stride, panel + k * width + r, width);
      }
      for (int64_t k = whole_terms; k < last; ++k) {
        for (int64_t i = r; i < r + 4; ++i) panel[k * width + i] = source[i * stride + k];
      }
    }
    for (int64_t k = first; k < last; ++k) {
      for (int64_t r = whole_rows; r < task.used; ++r) panel[k * width + r] = source[r * stride + k];
      for (int64_t r = task.used; r < width; ++r) panel[k * width + r] = 0;
    }
  }
}

// Rows are contiguous for each term: a copy.
HWY_INLINE void PackStrided(const PackTask& task, float* panel) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t width = task.width;
  const int64_t whole = task.used / lanes * lanes;
  for (int64_t k = 0; k < task.count; ++k) {
    const float* source = task.source.data + k * task.source.stride;
    float* to = panel + k * width;
    for (int64_t r = 0; r < whole; r += lanes) hn::StoreU(hn::LoadU(d, source + r), d, to + r);
    for (int64_t r = whole; r < task.used; ++r) to[r] = source[r];
    for (int64_t r = task.used; r < width; ++r) to[r] = 0;
  }
}

inline void Pack(const PackTask& task, float* panel) {
  if (task.layout == TermLayout::kContiguous) {
    PackContiguous(task, panel);
  } else {
    PackStrided(task, panel);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
