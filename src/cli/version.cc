// samestep version: what this program is and what this machine offers it.
#include "cli/command.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

int RunVersion(const Output& out) {
  nlohmann::ordered_json object;
  object["version"] = "0.1.0";
  object["numerics"] = "fma-1";
  object["compiler"] = __VERSION__;
  object["simd_targets"] = AvailableSimdTargets();
  out.Result(object,
             fmt::format("samestep 0.1.0, numerics profile fma-1, built by {}\ninstruction sets here: {}",
                         __VERSION__, fmt::join(AvailableSimdTargets(), ", ")));
  return 0;
}

const bool registered =
    RegisterCommand("version", "Version, numerics profile, instruction sets",
                    [](CLI::App&) { return [](const Output& out) { return RunVersion(out); }; });

}  // namespace
}  // namespace samestep
