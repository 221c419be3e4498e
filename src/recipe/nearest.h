// nearest.h: the known name that a mistyped one most likely means.
//
//   NearestName("golbal_batch", {"steps", "global_batch"})   // "global_batch"
//
// Determinism: ties go to the earlier candidate.
#pragma once

#include <string_view>
#include <vector>

namespace samestep {

// Empty if none is close: more than a third of the longer name would have to change.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace samestep
