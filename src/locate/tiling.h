// tiling.h: whether boxes cover a box exactly once.
//
//   Tiles({&left_half, &right_half}, whole)     // sites of one logical tensor
//
// Near-linear in the number of boxes where they form a grid; others are cut at each other's edges.
//
// Determinism: integers.
#pragma once

#include <vector>

#include "trace/event.h"

namespace samestep {

struct Box {
  Shape offsets, shape;
  bool operator<(const Box& other) const;
  bool operator==(const Box& other) const = default;
};
Box BoxOf(const TensorSite& site);
bool Contains(const Box& outer, const Box& inner);

bool Tiles(const std::vector<Box>& boxes, const Box& whole);

}  // namespace samestep
