// attention_tiles-inl.h: tiles of 64 queries by 64 keys: how their operands are packed, which terms they
// have, and the softmax over their rows.
//
// Determinism: maxima have no order; row sums have their sixteen stripes on every target.
#include "kernels/attention/tile_product-inl.h"
#include "numerics/elementary-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_ATTENTION_TILES_INL_H_
#undef SAMESTEP_KERNELS_ATTENTION_TILES_INL_H_
#else
#define SAMESTEP_KERNELS_ATTENTION_TILES_INL_H_
#endif

#include <cstring>
#include <limits>

#include "kernels/attention/attention_call.h"
#include "numerics/sums.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {
namespace attention {

inline constexpr int64_t kTile = kAttentionTile;

// Features of a packed row: whole vectors of any target.
inline int64_t Padded(int64_t features) { return (features + kStripes - 1) / kStripes * kStripes; }
inline int64_t Tiles(int64_t tokens) { return (tokens + kTile - 1) / kTile; }

// Rows [first, first + count) as [count][padded features], zeros behind each.
inline void PackRows(HeadRows x, int64_t first, int64_t count, int64_t features, float* out) {
  const int64_t padded = Padded(features);
  for (int64_t row = 0; row < count; ++row, out += padded) {
    std::memcpy(out, x[first + row], static_cast<size_t>(features) * sizeof(float));
    std::fill(out + features, out + padded, 0.0f);
  }
}

// Four rows as four columns, four features at a time; returns how many features are done.
HWY_INLINE int64_t PackFourColumns(const float* const (&rows)[4], int64_t features, float* out) {
#if HWY_TARGET == HWY_SCALAR
  (void)rows, (void)features, (void)out;
  return 0;
#else
  int64_t c = 0;
  const hn::CappedTag<float, 4> d;
  for (; c + 4 <= features; c += 4) {
    const auto r0 = hn::LoadU(d, rows[0] + c), r1 = hn::LoadU(d, rows[1] + c);
    const auto r2 = hn::LoadU(d, rows[2] + c), r3 = hn::LoadU(d, rows[3] + c);
    const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
    const auto high01 = hn::InterleaveUpper(d, r0, r1), high23 = hn::InterleaveUpper(d, r2, r3);
    hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, out + c * kTile);
    hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, out + (c + 1) * kTile);
    hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, out + (c + 2) * kTile);
    hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, out + (c + 3) * kTile);
  }
  return c;
#endif
}

// The same rows as columns, [features][64], zeros behind the last.
HWY_INLINE void PackColumns(HeadRows x, int64_t first, int64_t count, int64_t features, float* out) {
  for (int64_t column = 0; column < count; column += 4) {
    const int64_t columns = std::min<int64_t>(4, count - column);
    const float* rows[4];
    for (int64_t i = 0; i < 4; ++i) rows[i] = x[first + column + std::min(i, columns - 1)];
    int64_t c = columns == 4 ? PackFourColumns(rows, features, out + column) : 0;
    for (; c < features; ++c) {
      for (int64_t i = 0; i < columns; ++i) out[c * kTile + column + i] = rows[i][c];
    }
  }
  for (int64_t c = 0; c < features && count < kTile; ++c) {
    std::fill(out + c * kTile + count, out + (c + 1) * kTile, 0.0f);
  }
}

// One tile: queries [query, query + queries) by keys [key, key + keys). Rows before first_query see no key,
// keys from key_end on are seen by no query.
struct Tile {
  int64_t query, queries, key, keys;
  int64_t FirstQuery() const { return std::max<int64_t>(0, key - query); }
  int64_t KeyEnd() const { return std::min(keys, query + queries - key); }
  // Keys that row r sees.
  int64_t Seen(int64_t r) const { return std::min(keys, query + r + 1 - key); }
  // For products whose rows are queries and whose terms are keys; or whose outputs are.
  TermRange Keys() const { return {.count = keys, .begin = 0, .end = query + 1 - key, .end_step = 1}; }
  ColumnRange KeyColumns() const { return {query + 1 - key, 1, keys}; }
  // For products whose rows are keys and whose terms are queries.
  TermRange Queries() const {
    return {.count = queries, .begin = key - query, .begin_step = 1, .end = queries};
  }
};

// max(a, b) with max(-0, +0) = +0.
inline float MaxOf(float a, float b) { return a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b); }

// The maximum of `count` >= 1 numbers; `z` is padded to sixteen with minus infinity.
HWY_INLINE float MaxOfRow(const float* z, int64_t count) {
  const Tag d;
  Vector largest = hn::LoadU(d, z);
  for (int64_t j = kVectorLanes; j < count; j += kVectorLanes) {
    largest = hn::Max(largest, hn::LoadU(d, z + j));
  }
  float result = hn::GetLane(hn::MaxOfLanes(d, largest));
  if (result == 0) {  // whose sign the vector maximum does not promise
    result = -0.0f;
    for (int64_t j = 0; j < count; ++j) result = MaxOf(result, z[j]);
  }
  return result;
}

// Adds the lanes of a vector: i with i + half, then again.
template <class D, class V = hn::Vec<D>>
HWY_INLINE float FoldLanes(D d, V v) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return FoldLanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
#endif
  (void)d;
  return hn::GetLane(v);
}

// Sixteen stripes in one or several vectors: s with s+8, then +4, +2, +1.
template <int64_t kVectors>
HWY_INLINE float FoldSums(Vector (&sums)[kVectors]) {
#pragma GCC unroll 4
  for (int64_t half = kVectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < half; ++v) sums[v] = hn::Add(sums[v], sums[v + half]);
  }
  return FoldLanes(Tag(), sums[0]);
}

// Running maximum, sum and the factor by which a tile's rows rescale what came before.
struct RowState {
  float *max, *sum, *factor;  // [64] each
};

// Turns scaled products z [64][64] into p, with the online maximum and sum of each row.
HWY_INLINE void SoftmaxOfTile(const Tile& tile, bool first, float* z, const RowState& state) {
  const Tag d;
  HWY_ALIGN float step[kTile] = {};
  for (int64_t r = 0; r < tile.queries; ++r) {
    float* row = z + r * kTile;
    const int64_t seen = tile.Seen(r), padded = Padded(seen);
    std::fill(row + seen, row + padded, -std::numeric_limits<float>::infinity());
    const float tile_max = MaxOfRow(row, seen);
    const float new_max = first ? tile_max : MaxOf(state.max[r], tile_max);
    step[r] = first ? 0 : state.max[r] - new_max;
    state.max[r] = new_max;
  }
  for (int64_t r = 0; r < kTile && !first; r += kVectorLanes) {
    hn::StoreU(CrExpZ(d, hn::Load(d, step + r)), d, state.factor + r);
  }
  constexpr int64_t kVectors = kStripes / kVectorLanes;
  for (int64_t r = 0; r < tile.queries; ++r) {
    float* row = z + r * kTile;
    const Vector max = hn::Set(d, state.max[r]);
    Vector sums[kVectors];
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
    // Masked pairs add the +0 that exp of minus infinity is, which changes no sum of numbers that are >= +0.
    for (int64_t j = 0; j < Padded(tile.Seen(r)); j += kStripes) {
#pragma GCC unroll 16
      for (int64_t v = 0; v < kVectors; ++v) {
        float* const at = row + j + v * kVectorLanes;
        const Vector p = CrExpZ(d, hn::Sub(hn::LoadU(d, at), max));
        hn::StoreU(p, d, at);
        sums[v] = hn::Add(sums[v], p);
      }
    }
    const float sum = FoldSums(sums);
    state.sum[r] = first ? sum : std::fma(state.sum[r], state.factor[r], sum);
  }
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
