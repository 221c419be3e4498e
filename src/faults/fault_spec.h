// fault_spec.h: where and how a fault is planted, as text.
//
//   SAMESTEP_ASSIGN_OR_RETURN(FaultSpec spec, ParseFaultSpec(
//       "kernel=linear.forward,module=layers.1.mlp.down_proj,iteration=57,kind=chain-order"));
//
// Fields: kernel, iteration and kind must be there; module (whole components of the path, any if absent),
// occurrence (of the matching calls of the iteration, from 0), output (the role of an argument, the first
// that the kernel writes if absent), bit (of bit-flip, from the lowest), rank (of several processes, all if
// absent).
//
// Determinism: text in, numbers out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace samestep {

enum class FaultKind : uint8_t {
  kChainOrder,  // one row of an output is summed in another order
  kBitFlip,     // one bit of one element of an output
  kStale,       // an output holds what the same call gave one iteration earlier
  kJitter,      // the lowest bit of an element that no seed decides: two runs differ
  kMpiSum,      // a sum over ranks is made by MPI's reduction of floats in place of the tree
};
std::string_view NameOf(FaultKind kind);

struct FaultSpec {
  std::string kernel, module, output;
  int64_t iteration = 0;
  int64_t occurrence = 0;
  FaultKind kind = FaultKind::kBitFlip;
  int bit = 12;
  int64_t rank = -1;  // -1: every rank

  std::string ToString() const;
  // Whether a call at this place is meant, iteration and occurrence apart.
  bool Matches(std::string_view kernel_name, std::string_view module_path) const;
  bool StrikesRank(int64_t r) const { return rank < 0 || rank == r; }
};

// kUsage names the field, what was expected, and for kinds that do not fit a kernel those that do.
Result<FaultSpec> ParseFaultSpec(std::string_view text);

}  // namespace samestep
