// attention_forward-inl.h: a task of the forward pass is a tile of 64 queries of one head against all key
// tiles up to its own. Keys (as columns) and values are packed first, once for all tasks.
//
// Determinism: key tiles are taken in ascending order by the one task that owns a query.
#include "kernels/attention/attention_tiles-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_ATTENTION_FORWARD_INL_H_
#undef SAMESTEP_KERNELS_ATTENTION_FORWARD_INL_H_
#else
#define SAMESTEP_KERNELS_ATTENTION_FORWARD_INL_H_
#endif

#include "base/parallel_for.h"
#include "kernels/attention/attention_scratch.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {
namespace attention {

// Key tile `tile` of key head (sample, kv_head): columns of k, then rows of v.
struct PackedKeys {
  PackedKeys(const AttentionSizes& a, Scratch& scratch)
      : kv_heads(a.kv_heads),
        tiles(Tiles(a.tokens)),
        k_size(a.head_size * kTile),
        v_size(Padded(a.head_size) * kTile),
        data(scratch.Take(Size(a))) {}
  static int64_t Size(const AttentionSizes& a) {
    return a.samples * a.kv_heads * Tiles(a.tokens) * (a.head_size + Padded(a.head_size)) * kTile;
  }
  float* K(int64_t sample, int64_t kv_head, int64_t tile) const {
    return data + ((sample * kv_heads + kv_head) * tiles + tile) * (k_size + v_size);
  }
  float* V(int64_t sample, int64_t kv_head, int64_t tile) const { return K(sample, kv_head, tile) + k_size; }
  int64_t kv_heads, tiles, k_size, v_size;
  float* data;
};

inline void PackKeyTile(const Call& call, const AttentionSizes& a, const PackedKeys& packed, int64_t task) {
  const int64_t tile = task % packed.tiles, kv_head = task / packed.tiles % a.kv_heads;
  const int64_t sample = task / packed.tiles / a.kv_heads;
  const int64_t key = tile * kTile, keys = std::min(kTile, a.tokens - key);
  PackColumns(a.Rows(call.view(kK), sample, kv_head), key, keys, a.head_size,
              packed.K(sample, kv_head, tile));
  PackRows(a.Rows(call.view(kV), sample, kv_head), key, keys, a.head_size, packed.V(sample, kv_head, tile));
}

// dst = o / l
HWY_INLINE void DivideRow(const float* o, float l, int64_t count, float* dst) {
  const Tag d;
  int64_t c = 0;
  for (; c + kVectorLanes <= count; c += kVectorLanes) {
    hn::StoreU(hn::Div(hn::LoadU(d, o + c), hn::Set(d, l)), d, dst + c);
  }
  for (; c < count; ++c) dst[c] = o[c] / l;
}

inline void ForwardTask(const Call& call, const AttentionSizes& a, const PackedKeys& packed, int64_t task) {
  const int64_t query = (packed.tiles - 1 - task % packed.tiles) * kTile;  // the longest tasks first
  const int64_t head = task / packed.tiles % a.heads, sample = task / packed.tiles / a.heads;
  const int64_t kv_head = head / a.group, queries = std::min(kTile, a.tokens - query);
  const int64_t padded = Padded(a.head_size);
  Scratch scratch = Scratch::OfTask(kTile * (2 * padded + kTile + 3));
  float* const q = scratch.Take(kTile * padded);
  float* const o = scratch.Take(kTile * padded);
  float* const z = scratch.Take(kTile * kTile);
  const RowState state{scratch.Take(kTile), scratch.Take(kTile), scratch.Take(kTile)};

  PackRows(a.Rows(call.view(kQ), sample, head), query, queries, a.head_size, q);
  for (int64_t key = 0; key <= query; key += kTile) {
    const Tile tile{query, queries, key, std::min(kTile, a.tokens - key)};
    const int64_t index = key / kTile;
    TileProduct<Epilogue::kScale>({q, padded, 1}, packed.K(sample, kv_head, index), kTile,
                                  AllTerms(a.head_size), 0, queries, tile.KeyColumns(), &a.scale, z, kTile);
    SoftmaxOfTile(tile, key == 0, z, state);
    const Left p{z, kTile, 1};
    const float* v = packed.V(sample, kv_head, index);
    if (key == 0) {
      TileProduct<Epilogue::kSet>(p, v, padded, tile.Keys(), 0, queries, {padded, 0, padded}, nullptr, o,
                                  padded);
    } else {
      TileProduct<Epilogue::kRescale>(p, v, padded, tile.Keys(), 0, queries, {padded, 0, padded},
                                      state.factor, o, padded);
    }
  }
  const HeadRows dst = a.Rows(call.view(kDst), sample, head);
  float* const row_max = a.Statistics(call.view(kRowMax), sample, head) + query;
  float* const row_sum = a.Statistics(call.view(kRowSum), sample, head) + query;
  for (int64_t r = 0; r < queries; ++r) {
    DivideRow(o + r * padded, state.sum[r], a.head_size, dst[query + r]);
    row_max[r] = state.max[r];
    row_sum[r] = state.sum[r];
  }
}

inline void Forward(const Call& call) {
  const AttentionSizes a(call);
  Scratch scratch = Scratch::OfCall(PackedKeys::Size(a));
  const PackedKeys packed(a, scratch);
  ParallelFor(a.samples * a.kv_heads * packed.tiles,
              [&](int64_t task) { PackKeyTile(call, a, packed, task); });
  ParallelFor(a.samples * a.heads * packed.tiles, [&](int64_t task) { ForwardTask(call, a, packed, task); });
}

}  // namespace attention
}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
