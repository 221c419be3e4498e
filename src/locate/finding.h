// finding.h: where two runs part, and what kind of place that is.
//
// Determinism: plain descriptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "locate/elements.h"
#include "trace/event.h"

namespace samestep {

enum class FindingKind {
  kOrigin,       // inputs agree, an output differs: it arises in this call (or module, or phase)
  kData,         // a tensor of the data phase differs that no recorded call made
  kState,        // a tensor differs that no recorded call of this iteration made
  kChanged,      // a tensor differs from what the call wrote that made it: changed between two calls
  kSettings,     // a call was given other attributes, dtypes or shapes
  kValue,        // a scalar differs while all that was recorded before it agrees
  kControlFlow,  // calls are missing, added or in another order
  kReplica,      // ranks of one run hold copies that differ of what the other run has once
};
std::string_view FindingName(FindingKind kind);

// One argument, as both runs have it.
struct ArgumentReport {
  TensorSite site;
  Fingerprint a, b;
  std::optional<ElementDifference> elements;  // where both captured it
  bool same() const { return a == b; }
};

struct Finding {
  FindingKind kind = FindingKind::kOrigin;
  SegmentKey key;
  Site site;  // A's, or B's where only B has the event
  int64_t occurrence = 0;
  int64_t event_a = -1, event_b = -1;
  std::vector<ArgumentReport> arguments;
  std::vector<std::string> only_a, only_b;  // of control flow: places of events that the other lacks
  std::string detail;                       // sentences
  // Across layouts: the ranks in whose traces the parts stand that differ. Events are of the first of these.
  std::vector<int32_t> ranks_a, ranks_b;
  bool between = false;  // of an origin: it arises in one of several calls, which `detail` names
};

// How one segment of two runs compares.
struct SegmentDifference {
  std::vector<Finding> findings;  // in execution order; the first is where the runs part
  int64_t compared = 0;           // events that both have
  int64_t receivers = 0;          // events with inputs that differ already
  int64_t origins = 0;            // all findings of kind kOrigin, listed or not
  // Across layouts (logical.h):
  int64_t tensors = 0;         // logical tensors and scalars that were compared
  int64_t in_part = 0;         // of these, those of which only some boxes were
  int64_t not_comparable = 0;  // logical tensors that both have and that layouts cut differently
  int64_t only_in_one = 0;     // calls that one layout alone has
};

}  // namespace samestep
