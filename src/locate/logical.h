// logical.h: one iteration of two runs that cut the work differently: other micro-batches, other ranks.
//
//   const SegmentDifference d = CompareLogically(segments_a, segments_b);   // one segment a rank
//
// Calls are paired by logical identity: phase, module, kernel, occurrence within a micro-batch. What is
// compared is each logical tensor that a call read or wrote: its parts are added up once they tile the global
// shape exactly; parts that are held several times (weights read in each micro-batch) must be equal and count
// once. Of a tensor that calls update in turn (a weight gradient), only the last value is compared, since
// those before it depend on where the batch was cut. Partial sums are compared with the same lanes only. What
// cannot be compared so is counted, not guessed.
//
// Calls that only one layout has (a reduction) are counted, too: in another layout they are no divergence.
//
// Determinism: a function of the segments.
#pragma once

#include <vector>

#include "locate/finding.h"
#include "trace/event.h"

namespace samestep {

SegmentDifference CompareLogically(const std::vector<const Segment*>& a,
                                   const std::vector<const Segment*>& b);

}  // namespace samestep
