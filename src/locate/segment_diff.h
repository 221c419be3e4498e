// segment_diff.h: one iteration of two runs of one layout, event by event.
//
//   const SegmentDifference d = CompareSegments(a, b);
//
// Events are lined up by identity (kind, phase, micro-batch, module, name) as a text diff would, then looked
// at in execution order. The first that does not agree is where the runs part, since all before it agrees.
//
// Determinism: a function of the two segments.
#pragma once

#include "locate/finding.h"
#include "trace/event.h"

namespace samestep {

SegmentDifference CompareSegments(const Segment& a, const Segment& b);

}  // namespace samestep
