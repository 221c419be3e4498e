#include "numerics/sums.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace samestep {

float Chain(Terms a, Terms b, int64_t count, float start) {
  float s = start;
  for (int64_t k = 0; k < count; ++k) s = std::fma(a[k], b[k], s);
  return s;
}

float BlockedSum(Terms a, Terms b, int64_t count, std::optional<float> start) {
  std::optional<float> s = start;
  for (int64_t k = 0; k < count; k += kChainBlock) {
    const float block = Chain(a.From(k), b.From(k), std::min(kChainBlock, count - k));
    s = s ? *s + block : block;
  }
  return s.value_or(0.0f);
}

float Tree(std::span<const float> parts) {
  std::vector<float> level(parts.begin(), parts.end());
  if (level.empty()) return 0;
  while (level.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 != 0) next.push_back(level.back());
    level = std::move(next);
  }
  return level.front();
}

void TreeOf(std::span<const float* const> parts, int64_t count, float* out) {
  std::vector<float> column(parts.size());
  for (int64_t i = 0; i < count; ++i) {
    for (size_t p = 0; p < parts.size(); ++p) column[p] = parts[p][i];
    out[i] = Tree(column);
  }
}

float LaneSum(Terms a, Terms b, int64_t count, int64_t lanes) {
  SAMESTEP_CHECK(lanes > 0);
  SAMESTEP_CHECK_EQ(count % lanes, 0);
  const int64_t size = count / lanes;
  std::vector<float> parts;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    parts.push_back(BlockedSum(a.From(lane * size), b.From(lane * size), size));
  }
  return Tree(parts);
}

float SumOverTokens(Terms a, Terms b, const TokenShape& shape) {
  SAMESTEP_CHECK(shape.data_lanes > 0 && shape.token_lanes > 0);
  SAMESTEP_CHECK_EQ(shape.samples % shape.data_lanes, 0);
  SAMESTEP_CHECK_EQ(shape.tokens % shape.token_lanes, 0);
  const int64_t samples = shape.samples / shape.data_lanes;
  const int64_t tokens = shape.tokens / shape.token_lanes;
  std::vector<float> data_parts;
  for (int64_t data_lane = 0; data_lane < shape.data_lanes; ++data_lane) {
    std::vector<float> token_parts;
    for (int64_t token_lane = 0; token_lane < shape.token_lanes; ++token_lane) {
      std::optional<float> s;
      for (int64_t sample = data_lane * samples; sample < (data_lane + 1) * samples; ++sample) {
        const int64_t first = sample * shape.tokens + token_lane * tokens;
        s = BlockedSum(a.From(first), b.From(first), tokens, s);
      }
      token_parts.push_back(s.value_or(0.0f));
    }
    data_parts.push_back(Tree(token_parts));
  }
  return Tree(data_parts);
}

float SumOverRoutedTokens(Terms a, Terms b, const TokenShape& shape, int64_t expert_lanes,
                          std::span<const uint8_t> routed) {
  SAMESTEP_CHECK(shape.data_lanes > 0 && expert_lanes > 0);
  SAMESTEP_CHECK_EQ(shape.token_lanes, 1);
  SAMESTEP_CHECK_EQ(shape.samples % shape.data_lanes, 0);
  SAMESTEP_CHECK_EQ(shape.data_lanes % expert_lanes, 0);
  const int64_t rounds = shape.samples / shape.data_lanes;
  std::vector<float> parts;
  for (int64_t group = 0; group < shape.data_lanes; group += expert_lanes) {
    float s = 0;
    for (int64_t round = 0; round < rounds; ++round) {
      for (int64_t lane = group; lane < group + expert_lanes; ++lane) {
        const int64_t first = (lane * rounds + round) * shape.tokens;
        for (int64_t p = first; p < first + shape.tokens; ++p) {
          if (routed[p] != 0) s = std::fma(a[p], b[p], s);
        }
      }
    }
    parts.push_back(s);
  }
  return Tree(parts);
}

float FoldStripes(const float* stripes) {
  std::array<float, kStripes> s;
  std::copy_n(stripes, kStripes, s.begin());
  for (int64_t half = kStripes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) s[i] = s[i] + s[i + half];
  }
  return s[0];
}

float RowSum(Terms x, int64_t count) {
  std::array<float, kStripes> stripes = {};
  for (int64_t i = 0; i < count; ++i) stripes[i % kStripes] += x[i];
  return FoldStripes(stripes.data());
}

float RowDot(Terms x, Terms y, int64_t count) {
  std::array<float, kStripes> stripes = {};
  for (int64_t i = 0; i < count; ++i) stripes[i % kStripes] = std::fma(x[i], y[i], stripes[i % kStripes]);
  return FoldStripes(stripes.data());
}

float Max(float a, float b) {
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

float RowMax(Terms x, int64_t count) {
  SAMESTEP_CHECK(count > 0);
  float m = x[0];
  for (int64_t i = 1; i < count; ++i) m = Max(m, x[i]);
  return m;
}

}  // namespace samestep
