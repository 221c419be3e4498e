// metrics.h: metrics.jsonl, one line a step, with each real number in decimal and in exact hex.
//
//   SAMESTEP_ASSIGN_OR_RETURN(MetricsWriter metrics, MetricsWriter::Open(path, resumed_step));   // 0: new
//   run SAMESTEP_RETURN_IF_ERROR(metrics.Write(MetricsLine(step).Real("loss", loss).Text("digest", hex)));
//   SAMESTEP_RETURN_IF_ERROR(metrics.Flush());                                   // before each checkpoint
//
//   {"step": 1, "loss": 2.5, "loss_hex": "4004000000000000", "digest": "…"}
//
// A resumed run continues the file: lines of later steps are dropped, and with them a last line that a crash
// cut short.
//
// Determinism: lines depend on the values alone, unless a caller puts a time into one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "train/append_file.h"

namespace samestep {

class MetricsLine {
 public:
  explicit MetricsLine(int64_t step);
  MetricsLine& Integer(std::string_view name, int64_t value);
  // `name` in the shortest decimal that reads back as the value (null if it is not finite) and `name`_hex,
  // the bits: 16 digits of a binary64, 8 of a binary32.
  MetricsLine& Real(std::string_view name, double value);
  MetricsLine& Real(std::string_view name, float value);
  MetricsLine& Text(std::string_view name, std::string_view value);
  std::string text() const { return text_ + "}\n"; }

 private:
  void Add(std::string_view name, std::string_view json);
  std::string text_;
};

class MetricsWriter {
 public:
  static Result<MetricsWriter> Open(const std::string& path, int64_t resume_step);
  Status Write(const MetricsLine& line) { return file_.Append(line.text()); }
  Status Flush() { return file_.Flush(); }

 private:
  explicit MetricsWriter(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

}  // namespace samestep
