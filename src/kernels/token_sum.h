// token_sum.h: the order of sums over tokens (weight, bias and gain gradients; numerics page, "Token sum").
//
//   TokenSum order{.tokens = 512, .first_token = 0, .token_lanes = 1, .lanes_set = 0};
//   for (const TokenBlock& b : TokenBlocks(order, rows))
//     ... one chain over rows [b.row, b.row + b.count), which sets (b.sets) or is added to accumulator b.lane
//
// Rows are the tokens of consecutive samples of one data lane. Each sample is cut into `token_lanes` equal
// parts, each part into blocks of 256 from its first token. Accumulators are [token_lanes, ...]; `lanes_set`
// is the mask of those that an earlier call of this data lane has set.
//
// Determinism: where a call's rows begin and end does not change the blocks (they must begin at a block).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/call.h"

namespace samestep {

struct TokenSum {
  int64_t tokens = 0;       // a sample
  int64_t first_token = 0;  // position of row 0 in its sample; the beginning of a block
  int token_lanes = 1;      // at most 64; divides `tokens`
  uint64_t lanes_set = 0;
};

struct TokenBlock {
  int64_t row, count;
  int lane;
  bool sets;  // first block of its accumulator: set, not added
};

std::vector<TokenBlock> TokenBlocks(const TokenSum& order, int64_t rows);
// `lanes_set` after a call over `rows` rows.
uint64_t LanesSetAfter(const TokenSum& order, int64_t rows);

// As attributes of a call: tokens, first_token, token_lanes, lanes_set.
void SetTokenSum(Call& call, const TokenSum& order);
TokenSum GetTokenSum(const Call& call);

}  // namespace samestep
