#include "kernels/token_sum.h"

#include <algorithm>

#include "numerics/sums.h"

namespace samestep {
std::vector<TokenBlock> TokenBlocks(const TokenSum& order, int64_t rows) {
  SAMESTEP_CHECK(order.token_lanes >= 1 && order.token_lanes <= 64);
  SAMESTEP_CHECK_EQ(order.tokens % order.token_lanes, int64_t{0});
  const int64_t lane_tokens = order.tokens / order.token_lanes;
  uint64_t set = order.lanes_set;
  std::vector<TokenBlock> blocks;
  for (int64_t row = 0; row < rows;) {
    const int64_t position = (order.first_token + row) % order.tokens;
    const int64_t in_lane = position % lane_tokens;
    SAMESTEP_CHECK_EQ(in_lane % kChainBlock, int64_t{0});
    const int lane = static_cast<int>(position / lane_tokens);
    const int64_t count = std::min({kChainBlock, lane_tokens - in_lane, rows - row});
    const uint64_t bit = uint64_t{1} << lane;
    blocks.push_back({row, count, lane, (set & bit) == 0});
    set |= bit;
    row += count;
  }
  return blocks;
}

uint64_t LanesSetAfter(const TokenSum& order, int64_t rows) {
  uint64_t set = order.lanes_set;
  for (const TokenBlock& b : TokenBlocks(order, rows)) set |= uint64_t{1} << b.lane;
  return set;
}

void SetTokenSum(Call& call, const TokenSum& order) {
  call.Set("tokens", order.tokens)
      .Set("first_token", order.first_token)
      .Set("token_lanes", order.token_lanes)
      .Set("lanes_set", static_cast<int64_t>(order.lanes_set));
}

TokenSum GetTokenSum(const Call& call) {
  return {call.Integer("tokens"), call.Integer("first_token"), static_cast<int>(call.Integer("token_lanes")),
          static_cast<uint64_t>(call.Integer("lanes_set"))};
}

}  // namespace samestep
