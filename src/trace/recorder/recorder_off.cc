// In place of the recorder, where the program is built without it.
#include <cstdlib>

#include "trace/recorder.h"

namespace samestep {

Result<std::unique_ptr<Recorder>> MakeRecorder(const TraceHeader& /*header*/) {
  const char* folder = std::getenv("SAMESTEP_TRACE");
  if (folder == nullptr || *folder == '\0') return std::unique_ptr<Recorder>();
  return UsageError(
      "SAMESTEP_TRACE={} asks for a trace, and this program was built without the recorder; build with "
      "-DSAMESTEP_RECORDER=ON, or unset SAMESTEP_TRACE",
      folder);
}

}  // namespace samestep
