// problems.h: short forms for the problem tables of kernels.
//
//   .attributes = TokenSumAttributes({.tokens = 70, .token_lanes = 2})
//
// Determinism: plain data.
#pragma once

#include <vector>

#include "kernels/registry.h"
#include "kernels/token_sum.h"

namespace samestep {

// As SetTokenSum sets them on a call.
inline std::vector<Attribute> TokenSumAttributes(const TokenSum& order) {
  return {IntegerAttribute("tokens", order.tokens), IntegerAttribute("first_token", order.first_token),
          IntegerAttribute("token_lanes", order.token_lanes),
          IntegerAttribute("lanes_set", static_cast<int64_t>(order.lanes_set))};
}

}  // namespace samestep
