// progress.h: a line on the terminal that says how far a long task is and how long it will take.
//
//   Progress progress("packing", total);          // shows nothing unless standard error is a terminal
//   progress.Update(done, "3.1 MB/s");
//   progress.Clear();                             // before other output
//
// Determinism: reads the clock, and writes to the terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace samestep {

// "4:05", "1:02:03"
std::string FormatDuration(double seconds);

class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress() { Clear(); }
  // Draws at most ten times a second. `detail` is shown behind the percentage.
  void Update(int64_t done, const std::string& detail = "");
  void Clear();
  // Estimated from what is done since the first Update; negative while unknown.
  double SecondsLeft() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  int64_t total_, first_done_ = -1, done_ = 0;
  Clock::time_point begin_, drawn_;
  bool terminal_, visible_ = false;
};

}  // namespace samestep
