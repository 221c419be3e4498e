#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/attention/attention_call.h"
#include "numerics/elementary.h"
#include "numerics/sums.h"

namespace samestep {
namespace {

// Terms of a query row in the key tile that begins at `key`: masked pairs are none.
int64_t KeysSeen(int64_t query, int64_t key) { return std::min(kAttentionTile, query + 1 - key); }

void ForwardRow(const AttentionSizes& a, int64_t query, const float* q, HeadRows k, HeadRows v, float* dst,
                float* row_max, float* row_sum) {
  float m = 0, l = 0, z[kAttentionTile], p[kAttentionTile];
  std::vector<float> o(static_cast<size_t>(a.head_size));
  for (int64_t key = 0; key <= query; key += kAttentionTile) {
    const int64_t count = KeysSeen(query, key);
    for (int64_t j = 0; j < count; ++j) z[j] = Chain({q}, {k[key + j]}, a.head_size) * a.scale;
    const float tile_max = RowMax({z}, count);
    const float new_max = key == 0 ? tile_max : Max(m, tile_max);
    for (int64_t j = 0; j < count; ++j) p[j] = ExpZ(z[j] - new_max);
    const float factor = key == 0 ? 0 : ExpZ(m - new_max);
    l = key == 0 ? RowSum({p}, count) : std::fma(l, factor, RowSum({p}, count));
    for (int64_t c = 0; c < a.head_size; ++c) {
      const float pv = Chain({p}, {v[key] + c, v.stride}, count);
      float& out = o[static_cast<size_t>(c)];
      out = key == 0 ? pv : std::fma(out, factor, pv);
    }
    m = new_max;
  }
  for (int64_t c = 0; c < a.head_size; ++c) dst[c] = o[static_cast<size_t>(c)] / l;
  row_max[query] = m;
  row_sum[query] = l;
}

// [queries, keys] of one head; only pairs that are not masked are written.
struct Pairs {
  explicit Pairs(int64_t size) : tokens(size), p(static_cast<size_t>(size * size)), ds(p) {}
  int64_t tokens;
  std::vector<float> p, ds;
  const float* P(int64_t query, int64_t key) const { return p.data() + query * tokens + key; }
  const float* Ds(int64_t query, int64_t key) const { return ds.data() + query * tokens + key; }
};

Pairs MakePairs(const Call& call, const AttentionSizes& a, int64_t sample, int64_t head) {
  const HeadRows q = a.Rows(call.view(kQ), sample, head), k = a.Rows(call.view(kK), sample, head / a.group);
  const HeadRows v = a.Rows(call.view(kV), sample, head / a.group);
  const HeadRows dst = a.Rows(call.view(kDst), sample, head);
  const HeadRows diff_dst = a.Rows(call.view(kDiffDst), sample, head);
  const float* row_max = a.Statistics(call.view(kRowMax), sample, head);
  const float* row_sum = a.Statistics(call.view(kRowSum), sample, head);
  Pairs pairs(a.tokens);
  for (int64_t i = 0; i < a.tokens; ++i) {
    const float delta = RowDot({diff_dst[i]}, {dst[i]}, a.head_size);
    for (int64_t j = 0; j <= i; ++j) {
      const float z = Chain({q[i]}, {k[j]}, a.head_size) * a.scale;
      const float p = ExpZ(z - row_max[i]) * (1 / row_sum[i]);
      const float dp = Chain({diff_dst[i]}, {v[j]}, a.head_size);
      pairs.p[static_cast<size_t>(i * a.tokens + j)] = p;
      pairs.ds[static_cast<size_t>(i * a.tokens + j)] = (p * (dp - delta)) * a.scale;
    }
  }
  return pairs;
}

// acc is set by the first term and added to by the others.
void Accumulate(std::optional<float>& acc, float term) { acc = acc ? *acc + term : term; }

void DiffQueries(const AttentionSizes& a, const Pairs& pairs, HeadRows k, HeadRows diff_q) {
  for (int64_t i = 0; i < a.tokens; ++i) {
    for (int64_t c = 0; c < a.head_size; ++c) {
      std::optional<float> dq;
      for (int64_t key = 0; key <= i; key += kAttentionTile) {
        Accumulate(dq, Chain({pairs.Ds(i, key)}, {k[key] + c, k.stride}, KeysSeen(i, key)));
      }
      diff_q[i][c] = *dq;
    }
  }
}

// The gradient of feature c of key j: weights(head) gives column j of p or ds, rows(head) the queries or the
// output's gradient.
template <typename Weights, typename Rows>
float DiffKey(const AttentionSizes& a, int64_t j, int64_t c, Weights weights, Rows rows) {
  std::vector<float> lanes;
  const int64_t lane_tokens = a.tokens / a.lanes;
  for (int64_t lane = 0; lane < a.lanes; ++lane) {
    const int64_t begin = lane * lane_tokens, end = begin + lane_tokens;
    std::optional<float> acc;
    for (int64_t head = 0; head < a.group; ++head) {
      for (int64_t tile = begin; tile < end; tile += kAttentionTile) {
        const int64_t first = std::max(tile, j), last = std::min(tile + kAttentionTile, end);
        if (first >= last) continue;
        const HeadRows x = rows(head);
        Accumulate(acc, Chain({weights(head, first), a.tokens}, {x[first] + c, x.stride}, last - first));
      }
    }
    lanes.push_back(acc.value_or(0.0f));
  }
  return Tree(lanes);
}

}  // namespace

void AttentionForwardReference(const Call& call) {
  const AttentionSizes a(call);
  for (int64_t sample = 0; sample < a.samples; ++sample) {
    for (int64_t head = 0; head < a.heads; ++head) {
      const HeadRows q = a.Rows(call.view(kQ), sample, head), dst = a.Rows(call.view(kDst), sample, head);
      const HeadRows k = a.Rows(call.view(kK), sample, head / a.group);
      const HeadRows v = a.Rows(call.view(kV), sample, head / a.group);
      for (int64_t i = 0; i < a.tokens; ++i) {
        ForwardRow(a, i, q[i], k, v, dst[i], a.Statistics(call.view(kRowMax), sample, head),
                   a.Statistics(call.view(kRowSum), sample, head));
      }
    }
  }
}

void AttentionBackwardReference(const Call& call) {
  const AttentionSizes a(call);
  for (int64_t sample = 0; sample < a.samples; ++sample) {
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      const int64_t first = kv_head * a.group;
      std::vector<Pairs> pairs;
      for (int64_t head = 0; head < a.group; ++head) {
        pairs.push_back(MakePairs(call, a, sample, first + head));
        DiffQueries(a, pairs.back(), a.Rows(call.view(kK), sample, kv_head),
                    a.Rows(call.view(kDiffQ), sample, first + head));
      }
      const auto pair = [&](int64_t head) -> const Pairs& { return pairs[static_cast<size_t>(head)]; };
      const HeadRows diff_k = a.Rows(call.view(kDiffK), sample, kv_head);
      const HeadRows diff_v = a.Rows(call.view(kDiffV), sample, kv_head);
      for (int64_t j = 0; j < a.tokens; ++j) {
        for (int64_t c = 0; c < a.head_size; ++c) {
          diff_k[j][c] = DiffKey(
              a, j, c, [&](int64_t head, int64_t i) { return pair(head).Ds(i, j); },
              [&](int64_t head) { return a.Rows(call.view(kQ), sample, first + head); });
          diff_v[j][c] = DiffKey(
              a, j, c, [&](int64_t head, int64_t i) { return pair(head).P(i, j); },
              [&](int64_t head) { return a.Rows(call.view(kDiffDst), sample, first + head); });
        }
      }
    }
  }
}

}  // namespace samestep
