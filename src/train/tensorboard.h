// tensorboard.h: scalars as TensorBoard reads them.
//
//   SAMESTEP_ASSIGN_OR_RETURN(EventWriter events, EventWriter::Open(run_folder, SystemClock(), 0));
//   SAMESTEP_RETURN_IF_ERROR(events.Scalar(step, "loss", loss));
//   SAMESTEP_RETURN_IF_ERROR(events.Flush());              // before each checkpoint
//
// A folder holds one file, which a resumed run continues: Open drops what a crash left half written and the
// events after the step from which the run resumes. Values are binary32, since the format has no more;
// metrics.h keeps all bits.
//
// Determinism: with a fixed clock the bytes depend on the calls alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "train/append_file.h"

namespace samestep {

uint32_t Crc32c(std::string_view bytes);

// One record of an event file: length, its checksum, data, its checksum.
std::string EventRecord(std::string_view data);
// The event that begins a file, and one that holds a scalar, without the framing of a record.
std::string VersionEvent(double wall_time);
std::string ScalarEvent(double wall_time, int64_t step, std::string_view tag, float value);

// Seconds since 1970; a fixed one makes files repeat byte for byte.
using WallClock = std::function<double()>;
WallClock SystemClock();
WallClock FixedClock(double seconds);

class EventWriter {
 public:
  // Continues the folder's event file, without the events after `resume_step`, or begins one.
  static Result<EventWriter> Open(const std::string& folder, WallClock clock, int64_t resume_step);
  Status Scalar(int64_t step, std::string_view tag, double value);
  Status Flush() { return file_.Flush(); }

 private:
  EventWriter(AppendFile file, WallClock clock) : file_(std::move(file)), clock_(std::move(clock)) {}
  AppendFile file_;
  WallClock clock_;
};

}  // namespace samestep
