// sums.h: the written orders of summation, one term at a time, as the page of numerics states them.
//
//   float y = LaneSum({x}, {w}, inputs, tensor_lanes);            // an element of a linear's output
//   float g = SumOverTokens({dy + o, outputs}, {kOnes}, shape);         // an element of a bias gradient
//   float ms = RowDot({x}, {x}, features) / features;
//
// These are the references that fast kernels are tested against; row_sum-inl.h has the fast row sums.
//
// Determinism: the order of every addition is fixed by the sizes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace samestep {

inline constexpr int64_t kChainBlock = 256;    // terms in a block of a blocked sum
inline constexpr int64_t kStripes = 16;        // partial sums of a row sum
inline constexpr int64_t kAttentionTile = 64;  // keys, and queries, in a tile of attention

// Terms of a sum: element i is data[i * stride]. A column of a matrix has its row length as stride.
struct Terms {
  const float* data;
  int64_t stride = 1;
  float operator[](int64_t i) const { return data[i * stride]; }
  Terms From(int64_t i) const { return {data + i * stride, stride}; }
};

// As many ones as wanted.
inline constexpr float kOne = 1;
inline constexpr Terms kOnes = {&kOne, 0};

// s = fma(a[k], b[k], s) for k ascending. `start` is +0 but where a chain continues an accumulator.
float Chain(Terms a, Terms b, int64_t count, float start = 0);

// Blocks of 256 terms, each a chain from +0, added in turn to the first, or to `start` where the sum
// continues an accumulator. Without terms and start: +0.
float BlockedSum(Terms a, Terms b, int64_t count, std::optional<float> start = std::nullopt);

// Balanced tree: neighbours are added until one is left; an odd one out moves up. Without parts: +0.
float Tree(std::span<const float> parts);
// The same for `parts` arrays of `count` elements, parts[p][i]; the result is written to `out`.
void TreeOf(std::span<const float* const> parts, int64_t count, float* out);

// Terms in `lanes` contiguous lanes (lanes divides count), each a blocked sum, then the tree.
float LaneSum(Terms a, Terms b, int64_t count, int64_t lanes);

// The global batch, cut into lanes: samples are divided among data lanes, a sample's tokens among token
// lanes.
struct TokenShape {
  int64_t samples;
  int64_t tokens;  // of each sample
  int64_t data_lanes = 1;
  int64_t token_lanes = 1;
};
// Term p belongs to token p mod tokens of sample p div tokens.
float SumOverTokens(Terms a, Terms b, const TokenShape& shape);

// Only tokens with routed[p] != 0 are terms; `expert_lanes` adjacent data lanes form a group. token_lanes
// is 1.
float SumOverRoutedTokens(Terms a, Terms b, const TokenShape& shape, int64_t expert_lanes,
                          std::span<const uint8_t> routed);

// Adds sixteen stripes: s with s+8, then +4, +2, +1.
float FoldStripes(const float* stripes);
// Sixteen stripes, stripe s over elements i with i mod 16 == s ascending; then the fold.
float RowSum(Terms x, int64_t count);
float RowDot(Terms x, Terms y, int64_t count);

// max(-0, +0) = +0. Not for NaN.
float Max(float a, float b);
float RowMax(Terms x, int64_t count);  // count >= 1

}  // namespace samestep
