// samestep version: what this program is and what this machine offers it.
#include "base/version.h"

#include "cli/command.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

int RunVersion(const Output& out) {
  nlohmann::ordered_json object;
  object["version"] = kVersion;
  object["numerics"] = kNumericsProfile;
  object["compiler"] = __VERSION__;
  object["simd_targets"] = AvailableSimdTargets();
  out.Result(object,
             fmt::format("samestep {}, numerics profile {}, built by {}\ninstruction sets here: {}", kVersion,
                         kNumericsProfile, __VERSION__, fmt::join(AvailableSimdTargets(), ", ")));
  return 0;
}

const bool registered =
    RegisterCommand("version", "Version, numerics profile, instruction sets",
                    [](CLI::App&) { return [](const Output& out) { return RunVersion(out); }; });

}  // namespace
}  // namespace samestep
