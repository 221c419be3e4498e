// logical.h: one iteration of two runs that cut the work differently: other micro-batches, other ranks.
//
//   const SegmentDifference d = CompareLogically({segments_a, ranks_a}, {segments_b, ranks_b});
//
// Calls are paired by logical identity: phase, module, kernel, occurrence within a micro-batch
// (logical_calls.h). What is compared is each logical tensor that a call read or wrote: its parts are added
// up once they tile the global shape exactly; parts that are held several times (weights read in each
// micro-batch, what all tensor ranks hold) must be equal and count once. Of a tensor that calls update in
// turn (a weight gradient), only the last value is compared, since those before it depend on where the batch
// was cut. Partial sums are compared with the same lanes only. Where ranks were not recorded, boxes that both
// have are compared. What cannot be compared so is counted, not guessed.
//
// Calls that only one layout has (a reduction of gradients) are no divergence in themselves. Where an input
// differs that such calls made, and all before it agrees, they are where the difference arises, and the
// finding says so.
//
// Determinism: a function of the segments.
#pragma once

#include <cstdint>
#include <vector>

#include "locate/finding.h"
#include "trace/event.h"

namespace samestep {

struct LogicalSide {
  std::vector<const Segment*> segments;
  std::vector<int32_t> ranks;  // whose these are
};

SegmentDifference CompareLogically(const LogicalSide& a, const LogicalSide& b);

}  // namespace samestep
