// attention_backward-inl.h: a task of the backward pass is one key head of one sample with all query heads
// that read it: by query lane, head, query tile and key tile, both orders of sums (over key tiles for dq,
// over heads and query tiles for dk and dv) come out of one pass over the pairs.
//
// Determinism: loops in the written order; accumulators are set, not added to, by their first term.
#include "kernels/attention/attention_tiles-inl.h"
#include "numerics/row_sum-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_ATTENTION_BACKWARD_INL_H_
#undef SAMESTEP_KERNELS_ATTENTION_BACKWARD_INL_H_
#else
#define SAMESTEP_KERNELS_ATTENTION_BACKWARD_INL_H_
#endif

#include <vector>

#include "base/parallel_for.h"
#include "kernels/attention/attention_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {
namespace attention {

// Memory of one task.
struct BackwardBuffers {
  explicit BackwardBuffers(const AttentionSizes& a)
      : padded(Padded(a.head_size)), rows(Tiles(a.tokens) * kTile) {
    Scratch scratch = Scratch::OfTask(rows * (2 * a.head_size + padded) + 2 * a.lanes * rows * padded +
                                      kTile * (3 * padded + 2 * kTile + 3));
    k_columns = scratch.Take(rows * a.head_size);
    v_columns = scratch.Take(rows * a.head_size);
    k = scratch.Take(rows * padded);
    dk = scratch.Take(a.lanes * rows * padded);
    dv = scratch.Take(a.lanes * rows * padded);
    q = scratch.Take(kTile * padded);
    diff_dst = scratch.Take(kTile * padded);
    dq = scratch.Take(kTile * padded);
    p = scratch.Take(kTile * kTile);
    ds = scratch.Take(kTile * kTile);
    max = scratch.Take(kTile);
    reciprocal = scratch.Take(kTile);
    delta = scratch.Take(kTile);
  }
  int64_t padded, rows;
  float *k_columns, *v_columns, *k;  // all keys: tiles of columns, rows
  float *dk, *dv;                    // [lanes][rows][padded]
  float *q, *diff_dst, *dq;          // [64][padded], the query tile
  float *p, *ds;                     // [64][64]
  float *max, *reciprocal, *delta;   // [64], of the query rows
};

inline void PackKeys(const Call& call, const AttentionSizes& a, int64_t sample, int64_t kv_head,
                     const BackwardBuffers& at) {
  const HeadRows k = a.Rows(call.view(kK), sample, kv_head), v = a.Rows(call.view(kV), sample, kv_head);
  for (int64_t key = 0; key < a.tokens; key += kTile) {
    const int64_t keys = std::min(kTile, a.tokens - key);
    PackColumns(k, key, keys, a.head_size, at.k_columns + key * a.head_size);
    PackColumns(v, key, keys, a.head_size, at.v_columns + key * a.head_size);
  }
  PackRows(k, 0, a.tokens, a.head_size, at.k);
}

HWY_INLINE void PackQueries(const Call& call, const AttentionSizes& a, int64_t sample, int64_t head,
                            int64_t query, int64_t queries, const BackwardBuffers& at) {
  const HeadRows diff_dst = a.Rows(call.view(kDiffDst), sample, head);
  const HeadRows dst = a.Rows(call.view(kDst), sample, head);
  const float* row_max = a.Statistics(call.view(kRowMax), sample, head) + query;
  const float* row_sum = a.Statistics(call.view(kRowSum), sample, head) + query;
  PackRows(a.Rows(call.view(kQ), sample, head), query, queries, a.head_size, at.q);
  PackRows(diff_dst, query, queries, a.head_size, at.diff_dst);
  for (int64_t r = 0; r < queries; ++r) {
    at.max[r] = row_max[r];
    at.reciprocal[r] = 1 / row_sum[r];
    at.delta[r] = RowDot(diff_dst[query + r], dst[query + r], a.head_size);
  }
}

// From z and dp, which `p` and `ds` hold, to p and ds. Masked pairs get numbers that nothing reads.
HWY_INLINE void DiffScores(const Tile& tile, float scale, const BackwardBuffers& at) {
  const Tag d;
  const Vector scales = hn::Set(d, scale);
  for (int64_t r = tile.FirstQuery(); r < tile.queries; ++r) {
    const Vector max = hn::Set(d, at.max[r]), reciprocal = hn::Set(d, at.reciprocal[r]);
    const Vector delta = hn::Set(d, at.delta[r]);
    float *const p_row = at.p + r * kTile, *const ds_row = at.ds + r * kTile;
    for (int64_t j = 0; j < tile.Seen(r); j += kVectorLanes) {
      const Vector p = hn::Mul(CrExpZ(d, hn::Sub(hn::LoadU(d, p_row + j), max)), reciprocal);
      const Vector dp = hn::LoadU(d, ds_row + j);
      hn::StoreU(p, d, p_row + j);
      hn::StoreU(hn::Mul(hn::Mul(p, hn::Sub(dp, delta)), scales), d, ds_row + j);
    }
  }
}

// Adds a tile's chains to dk and dv; keys from `first_set` on meet their first term.
inline void AddKeyGradients(const Tile& tile, int64_t first_set, const BackwardBuffers& at, float* dk,
                            float* dv) {
  const TermRange queries = tile.Queries();
  const ColumnRange columns{at.padded, 0, at.padded};
  const auto both = [&](auto product, int64_t first, int64_t last) {
    product({at.p, 1, kTile}, at.diff_dst, at.padded, queries, first, last, columns, nullptr, dv, at.padded);
    product({at.ds, 1, kTile}, at.q, at.padded, queries, first, last, columns, nullptr, dk, at.padded);
  };
  both(TileProduct<Epilogue::kAdd>, 0, first_set);
  both(TileProduct<Epilogue::kSet>, first_set, tile.KeyEnd());
}

inline void BackwardQueryTile(const AttentionSizes& a, int64_t query, int64_t queries, bool first_of_lane,
                              bool first_head, const BackwardBuffers& at, float* dk, float* dv) {
  for (int64_t key = 0; key < query + queries; key += kTile) {
    const Tile tile{query, queries, key, std::min(kTile, a.tokens - key)};
    const int64_t first = tile.FirstQuery();
    TileProduct<Epilogue::kScale>({at.q, at.padded, 1}, at.k_columns + key * a.head_size, kTile,
                                  AllTerms(a.head_size), first, queries, tile.KeyColumns(), &a.scale, at.p,
                                  kTile);
    TileProduct<Epilogue::kSet>({at.diff_dst, at.padded, 1}, at.v_columns + key * a.head_size, kTile,
                                AllTerms(a.head_size), first, queries, tile.KeyColumns(), nullptr, at.ds,
                                kTile);
    DiffScores(tile, a.scale, at);
    const auto product = key == 0 ? TileProduct<Epilogue::kSet> : TileProduct<Epilogue::kAdd>;
    product({at.ds, kTile, 1}, at.k + key * at.padded, at.padded, tile.Keys(), first, queries,
            {at.padded, 0, at.padded}, nullptr, at.dq, at.padded);
    // Keys before this query tile met terms in the lane's earlier tiles, all keys in earlier heads.
    const int64_t first_set = !first_head     ? tile.KeyEnd()
                              : first_of_lane ? 0
                                              : std::clamp<int64_t>(query - key, 0, tile.KeyEnd());
    AddKeyGradients(tile, first_set, at, dk + key * at.padded, dv + key * at.padded);
  }
}

// The balanced tree over lanes, row by row.
inline void StoreKeyGradient(const AttentionSizes& a, const BackwardBuffers& at, const float* lanes,
                             HeadRows diff) {
  const size_t bytes = static_cast<size_t>(a.head_size) * sizeof(float);
  std::vector<const float*> parts(static_cast<size_t>(a.lanes));
  for (int64_t key = 0; key < a.tokens; ++key) {
    if (a.lanes == 1) {
      std::memcpy(diff[key], lanes + key * at.padded, bytes);
      continue;
    }
    for (int64_t lane = 0; lane < a.lanes; ++lane) {
      parts[static_cast<size_t>(lane)] = lanes + (lane * at.rows + key) * at.padded;
    }
    TreeOf(parts, a.head_size, diff[key]);
  }
}

inline void BackwardTask(const Call& call, const AttentionSizes& a, int64_t task) {
  const int64_t kv_head = task % a.kv_heads, sample = task / a.kv_heads;
  const BackwardBuffers at(a);
  PackKeys(call, a, sample, kv_head, at);
  const int64_t lane_tokens = a.tokens / a.lanes, lane_size = at.rows * at.padded;
  if (a.lanes > 1) {  // a key that no query of a lane sees adds +0
    std::fill(at.dk, at.dk + a.lanes * lane_size, 0.0f);
    std::fill(at.dv, at.dv + a.lanes * lane_size, 0.0f);
  }
  for (int64_t lane = 0; lane < a.lanes; ++lane) {
    const int64_t begin = lane * lane_tokens, end = begin + lane_tokens;
    for (int64_t head = kv_head * a.group; head < (kv_head + 1) * a.group; ++head) {
      const HeadRows diff_q = a.Rows(call.view(kDiffQ), sample, head);
      for (int64_t query = begin; query < end; query += kTile) {
        const int64_t queries = std::min(kTile, end - query);
        PackQueries(call, a, sample, head, query, queries, at);
        BackwardQueryTile(a, query, queries, query == begin, head == kv_head * a.group, at,
                          at.dk + lane * lane_size, at.dv + lane * lane_size);
        for (int64_t r = 0; r < queries; ++r) {
          std::memcpy(diff_q[query + r], at.dq + r * at.padded,
                      static_cast<size_t>(a.head_size) * sizeof(float));
        }
      }
    }
  }
  StoreKeyGradient(a, at, at.dk, a.Rows(call.view(kDiffK), sample, kv_head));
  StoreKeyGradient(a, at, at.dv, a.Rows(call.view(kDiffV), sample, kv_head));
}

inline void Backward(const Call& call) {
  const AttentionSizes a(call);
  ParallelFor(a.samples * a.kv_heads, [&](int64_t task) { BackwardTask(call, a, task); });
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
