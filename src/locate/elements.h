// elements.h: how two captured tensors differ, element by element.
//
//   const ElementDifference d = CompareElements(a, b);   // of one dtype and shape
//   d.differing of d.elements differ, first at d.first: d.bits_a against d.bits_b, d.ulps apart
//
// The distance in ULPs of two floating-point numbers is the number of steps from one to the other through the
// representable values (-0 and +0 are one step apart); of integers, their difference.
//
// Determinism: bits are compared; NaN payloads count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/capture.h"

namespace samestep {

struct ElementDifference {
  int64_t elements = 0, differing = 0;
  std::vector<int64_t> first;  // index in the logical tensor
  std::string text_a, text_b;  // of the first: bits, and the value where it is a common type
  uint64_t ulps = 0, largest_ulps = 0;
};

ElementDifference CompareElements(const CapturedTensor& a, const CapturedTensor& b);

}  // namespace samestep
