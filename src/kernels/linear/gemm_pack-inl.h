// gemm_pack-inl.h: copies rows (columns) of an operand into a panel, term by term. Bits do not change.
#include "numerics/targets.h"
//
#include "hwy/highway.h"
#include "kernels/linear/gemm_sizes-inl.h"

#if defined(SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_
#undef SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_
#else
#define SAMESTEP_KERNELS_LINEAR_GEMM_PACK_INL_H_
#endif

#include <algorithm>

#include "kernels/linear/gemm_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Stores the first `kRows` of four lanes.
template <int kRows, class V>
HWY_INLINE void StoreRows(V v, float* to) {
  if constexpr (kRows == 4) {
    hn::StoreU(v, hn::Full128<float>(), to);
  } else if constexpr (kRows == 2) {
    hn::StoreU(hn::LowerHalf(v), hn::Full64<float>(), to);
  } else {
    *to = hn::GetLane(v);
  }
}

// The next four terms of four rows, of which `kRows` are stored: panel[k * width + r].
template <int kRows>
HWY_INLINE void Transpose(const float* row0, const float* row1, const float* row2, const float* row3,
                          float* panel, int64_t width) {
#if HWY_TARGET == HWY_SCALAR
  const float* const rows[] = {row0, row1, row2, row3};
  for (int64_t k = 0; k < 4; ++k) {
    for (int64_t r = 0; r < kRows; ++r) panel[k * width + r] = rows[r][k];
  }
#else
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto a = hn::LoadU(d, row0), b = hn::LoadU(d, row1);
  const auto c = hn::LoadU(d, row2), e = hn::LoadU(d, row3);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  StoreRows<kRows>(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), panel);
  StoreRows<kRows>(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), panel + width);
  StoreRows<kRows>(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), panel + 2 * width);
  StoreRows<kRows>(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), panel + 3 * width);
#endif
}

// `kRows` rows of the panel from `first` on; rows that are not there repeat the last one.
template <int kRows>
HWY_INLINE void PackRows(const PackTask& task, int64_t first, float* panel) {
  constexpr int64_t kLine = 16;  // floats in a cache line
  const int64_t count = task.count, width = task.width;
  const auto row = [&](int64_t r) HWY_ATTR {
    return task.source.data + std::min(first + r, task.used - 1) * task.source.stride;
  };
  const float *const row0 = row(0), *const row1 = row(1), *const row2 = row(2), *const row3 = row(3);
  panel += first;
  int64_t k = 0;
  for (; k + kLine <= count; k += kLine) {
    // The rows that follow, be they of the next panel; an address beyond the end does no harm.
    for (int64_t r = 0; r < 4; ++r) __builtin_prefetch(row0 + (r + 4) * task.source.stride + k);
    for (int64_t i = k; i < k + kLine; i += 4) {
      Transpose<kRows>(row0 + i, row1 + i, row2 + i, row3 + i, panel + i * width, width);
    }
  }
  for (; k + 4 <= count; k += 4) {
    Transpose<kRows>(row0 + k, row1 + k, row2 + k, row3 + k, panel + k * width, width);
  }
  for (; k < count; ++k) {
    const float terms[] = {row0[k], row1[k], row2[k], row3[k]};
    for (int64_t r = 0; r < kRows; ++r) panel[k * width + r] = terms[r];
  }
}

// Terms of a row are contiguous: a transposition.
HWY_INLINE void PackContiguous(const PackTask& task, float* panel) {
  int64_t r = 0;
  for (; r + 4 <= task.width; r += 4) PackRows<4>(task, r, panel);
  for (; r + 2 <= task.width; r += 2) PackRows<2>(task, r, panel);
  for (; r < task.width; ++r) PackRows<1>(task, r, panel);
}

// `kWidth` floats for each term.
template <int kWidth>
HWY_INLINE void CopyRows(const PackTask& task, float* panel) {
  const hn::CappedTag<float, kWidth> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  constexpr int64_t kAhead = 16;
  const float* source = task.source.data;
  for (int64_t k = 0; k < task.count; ++k) {
    for (int64_t line = 0; line < kWidth; line += 16) {
      __builtin_prefetch(source + kAhead * task.source.stride + line);
    }
    int64_t r = 0;
    for (; r + kLanes <= kWidth; r += kLanes) hn::StoreU(hn::LoadU(d, source + r), d, panel + r);
    for (; r < kWidth; ++r) panel[r] = source[r];
    source += task.source.stride;
    panel += kWidth;
  }
}

// Rows are contiguous for each term: a copy.
HWY_INLINE void PackStrided(const PackTask& task, float* panel) {
  constexpr int kRight = kTileVectors * static_cast<int>(hn::MaxLanes(hn::ScalableTag<float>()));
  if (task.used == kTileRows && task.width == kTileRows) return CopyRows<kTileRows>(task, panel);
  if (task.used == kRight && task.width == kRight) return CopyRows<kRight>(task, panel);
  for (int64_t k = 0; k < task.count; ++k) {
    const float* source = task.source.data + k * task.source.stride;
    float* to = panel + k * task.width;
    std::copy_n(source, task.used, to);
    std::fill(to + task.used, to + task.width, 0.0f);
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
