// simd_target.h: which of the instruction sets that this program holds and this machine has is used.
//
//   for (const std::string& name : AvailableSimdTargets()) {
//     SAMESTEP_RETURN_IF_ERROR(ForceSimdTarget(name));   // "avx3", "avx2", "sse4", "emu128" or "scalar";
//     "neon"
//     ... every HWY_DYNAMIC_DISPATCH from here on runs that one ...
//   }
//   ForceSimdTarget("best");
//
// Determinism: every target gives the same bits, so this reaches no result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace samestep {

// Best first; never empty.
std::vector<std::string> AvailableSimdTargets();

// The one in use: a name of the list above.
std::string CurrentSimdTarget();

// `name` is of the list above, or "best". kUsage names what there is. Not while kernels run.
Status ForceSimdTarget(std::string_view name);

}  // namespace samestep
