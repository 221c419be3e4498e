// version.h: what this program is, said once.
//
//   fmt::print("samestep {}, numerics profile {}", kVersion, kNumericsProfile);
//
// Determinism: the profile names the definition of all bits (docs/determinism/numerics.md); it is part of
// recipe digests, checkpoints and traces, and changes whenever a bit does. The version reaches no result.
#pragma once

namespace samestep {

inline constexpr const char kVersion[] = "0.1.0";
inline constexpr const char kNumericsProfile[] = "fma-1";

}  // namespace samestep
