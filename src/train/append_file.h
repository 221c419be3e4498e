// append_file.h: a file that grows while a run goes on, and that others read meanwhile.
//
//   SAMESTEP_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(path));
//   SAMESTEP_RETURN_IF_ERROR(file.Append("a line\n"));       // in the file within about a second
//   SAMESTEP_RETURN_IF_ERROR(file.Flush());                  // now; survives a kill of the process
//
// Pieces reach the file whole or, if the system stops in between, cut short: a reader must bear with an
// incomplete last piece.
//
// Determinism: the time decides only when bytes are written, never which.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"

namespace samestep {

class AppendFile {
 public:
  static Result<AppendFile> Open(const std::string& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();  // flushes; call Flush before, to learn whether that succeeded
  Status Append(std::string_view piece);
  Status Flush();

 private:
  AppendFile() = default;
  std::string path_;
  int descriptor_ = -1;
  std::string buffer_;
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace samestep
