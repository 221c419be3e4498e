// recorder.h: records what a program computes, where the environment asks for it.
//
//   SAMESTEP_ASSIGN_OR_RETURN(std::unique_ptr<Recorder> recorder, MakeRecorder(header));   // null: not asked
//   if (recorder) CallContext::Current().AddObserver(recorder.get());
//   ... train; after each step: if (recorder && !recorder->status().ok()) stop or go on without it ...
//   SAMESTEP_RETURN_IF_ERROR(recorder->Finish());
//
// SAMESTEP_TRACE       folder; unset: nothing is recorded
// SAMESTEP_LEVEL       iteration | phase | module | kernel (default) | kernel-reread
// SAMESTEP_ITERATIONS  all (default), 1-3,8, 100:110
// SAMESTEP_RANKS       the same of ranks
// SAMESTEP_CAPTURE     calls whose bytes are kept: kernel=linear.forward,iteration=3;module=model.layers.0
//                      (keys kernel, module, phase, iteration, occurrence; * ends a kernel or module;
//                      alternatives after ;) and limit=2G, the most bytes a rank keeps (default 1G)
//
// Built with -DSAMESTEP_RECORDER=OFF, MakeRecorder refuses what it cannot do (recorder_off.cc).
//
// Determinism: reads tensors and changes none.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "kernels/call.h"
#include "trace/event.h"

namespace samestep {

class Recorder : public CallObserver {
 public:
  // The first failure to write. After it nothing more is recorded; what was written stays whole.
  virtual Status status() const = 0;
  // Writes what is pending and marks the trace as complete.
  virtual Status Finish() = 0;
  virtual uint64_t bytes_written() const = 0;
};

// What the environment asks for. `header`: all but level, iterations and generation.
Result<std::unique_ptr<Recorder>> MakeRecorder(const TraceHeader& header);

}  // namespace samestep
