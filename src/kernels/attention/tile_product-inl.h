// tile_product-inl.h: the small matrix products of attention, with register blocks, in which every output is
// one chain over its own range of terms.
//
//   TileProduct<Epilogue::kSet>({q, stride, 1}, key_columns, 64, AllTerms(head_size), rows, 64, out, 64);
//
// out[r][n] = chain over t of a[r][t] * b[t][n]; `b` and `out` are padded to whole vectors. Rows may begin
// or end at other terms (masked pairs are no terms): see TermRange.
//
// Determinism: a chain belongs to one output, so blocking and vector width reach no bit.
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_TILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_TILE_PRODUCT_INL_H_
#undef SAMESTEP_KERNELS_TILE_PRODUCT_INL_H_
#else
#define SAMESTEP_KERNELS_TILE_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {
namespace attention {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;
inline constexpr int64_t kVectorLanes = hn::MaxLanes(Tag());

// Element t of row r is data[r * row + t * term].
struct Left {
  const float* data;
  int64_t row, term;
};

// Row r has terms [Begin(r), End(r)). Either all rows begin at 0 or all end at `count`.
struct TermRange {
  int64_t count;                  // of terms in the tile
  int64_t begin, begin_step = 0;  // row r begins at begin + r * begin_step, cut to 0
  int64_t end, end_step = 0;      // and ends at end + r * end_step, cut to count
  int64_t Begin(int64_t r) const { return std::max<int64_t>(0, begin + r * begin_step); }
  int64_t End(int64_t r) const { return std::min(count, end + r * end_step); }
};
inline TermRange AllTerms(int64_t count) { return {.count = count, .begin = 0, .end = count}; }

// What becomes of a finished chain s; `factors` has one number a row.
enum class Epilogue {
  kSet,      // out = s
  kAdd,      // out = out + s
  kScale,    // out = s * factors[0]
  kRescale,  // out = fma(out, factors[row], s)
};

// Register block: 4 rows of 4 vectors where there are 32 registers, of 3 where there are 16.
inline constexpr int kBlockRows = 4;
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kBlockVectors = 4;
#else
inline constexpr int kBlockVectors = 3;
#endif

// Terms [begin, end) of rows [kFirst, kFirst + kCount) of a block.
template <int kFirst, int kCount, int kRows, int kVectors>
HWY_INLINE void AddTerms(const Left& a, const float* HWY_RESTRICT b, int64_t b_stride, int64_t begin,
                         int64_t end, Vector (&sums)[kRows][kVectors]) {
  const Tag d;
  for (int64_t t = begin; t < end; ++t) {
    Vector columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + t * b_stride + v * kVectorLanes);
#pragma GCC unroll 4
    for (int r = kFirst; r < kFirst + kCount; ++r) {
      const Vector x = hn::Set(d, a.data[r * a.row + t * a.term]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = ExactMulAdd(d, x, columns[v], sums[r][v]);
    }
  }
}

template <Epilogue kEpilogue, int kRows, int kVectors>
HWY_INLINE void Block(const Left& a, const float* HWY_RESTRICT b, int64_t b_stride, const TermRange& terms,
                      int64_t row, const float* factors, float* HWY_RESTRICT out, int64_t out_stride) {
  const Tag d;
  Vector sums[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  // Terms that only some rows have come first or last; the ones between are common.
  const int64_t begin = terms.Begin(row + kRows - 1), end = terms.End(row);
  if constexpr (kRows == kBlockRows) {
    static_assert(kBlockRows == 4);
    AddTerms<0, 1>(a, b, b_stride, terms.Begin(row), begin, sums);
    AddTerms<1, 1>(a, b, b_stride, terms.Begin(row + 1), begin, sums);
    AddTerms<2, 1>(a, b, b_stride, terms.Begin(row + 2), begin, sums);
  }
  AddTerms<0, kRows>(a, b, b_stride, begin, end, sums);
  if constexpr (kRows == kBlockRows) {
    AddTerms<1, 1>(a, b, b_stride, end, terms.End(row + 1), sums);
    AddTerms<2, 1>(a, b, b_stride, end, terms.End(row + 2), sums);
    AddTerms<3, 1>(a, b, b_stride, end, terms.End(row + 3), sums);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const at = out + r * out_stride + v * kVectorLanes;
      Vector result = sums[r][v];
      if constexpr (kEpilogue == Epilogue::kAdd) result = hn::Add(hn::LoadU(d, at), result);
      if constexpr (kEpilogue == Epilogue::kScale) result = hn::Mul(result, hn::Set(d, factors[0]));
      if constexpr (kEpilogue == Epilogue::kRescale) {
        result = ExactMulAdd(d, hn::LoadU(d, at), hn::Set(d, factors[row + r]), result);
      }
      hn::StoreU(result, d, at);
    }
  }
}

template <Epilogue kEpilogue, int kRows>
HWY_INLINE void BlockRow(Left a, const float* b, int64_t b_stride, const TermRange& terms, int64_t row,
                         int64_t columns, const float* factors, float* out, int64_t out_stride) {
  a.data += row * a.row;
  out += row * out_stride;
  int64_t n = 0;
  const auto left = [&] { return (columns - n + kVectorLanes - 1) / kVectorLanes; };
  for (; left() >= kBlockVectors; n += kBlockVectors * kVectorLanes) {
    Block<kEpilogue, kRows, kBlockVectors>(a, b + n, b_stride, terms, row, factors, out + n, out_stride);
  }
  for (; left() >= 2; n += 2 * kVectorLanes) {
    Block<kEpilogue, kRows, 2>(a, b + n, b_stride, terms, row, factors, out + n, out_stride);
  }
  if (left() == 1) Block<kEpilogue, kRows, 1>(a, b + n, b_stride, terms, row, factors, out + n, out_stride);
}

// Rows [first, last). Row r computes `columns` + r * column_step columns at least, at most max_columns.
struct ColumnRange {
  int64_t count, step = 0, limit;
  int64_t Of(int64_t last_row) const { return std::min(limit, count + last_row * step); }
};

template <Epilogue kEpilogue>
HWY_NOINLINE void TileProduct(const Left& a, const float* b, int64_t b_stride, const TermRange& terms,
                              int64_t first, int64_t last, const ColumnRange& columns, const float* factors,
                              float* out, int64_t out_stride) {
  int64_t row = first;
  for (; row + kBlockRows <= last; row += kBlockRows) {
    BlockRow<kEpilogue, kBlockRows>(a, b, b_stride, terms, row, columns.Of(row + kBlockRows - 1), factors,
                                    out, out_stride);
  }
  for (; row < last; ++row) {
    BlockRow<kEpilogue, 1>(a, b, b_stride, terms, row, columns.Of(row), factors, out, out_stride);
  }
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
