#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace samestep {

std::string FormatDuration(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02d}:{:02d}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02d}", s / 60, s % 60);
}

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), begin_(Clock::now()), terminal_(::isatty(STDERR_FILENO) == 1) {}

double Progress::SecondsLeft() const {
  if (first_done_ < 0 || done_ <= first_done_) return -1;
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  return elapsed * static_cast<double>(total_ - done_) / static_cast<double>(done_ - first_done_);
}

void Progress::Update(int64_t done, const std::string& detail) {
  const Clock::time_point now = Clock::now();
  if (first_done_ < 0) {
    first_done_ = done;
    begin_ = now;
  }
  done_ = done;
  if (!terminal_ || (visible_ && now - drawn_ < std::chrono::milliseconds(100))) return;
  const double left = SecondsLeft();
  const double percent = total_ > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total_) : 100;
  fmt::print(stderr, "\r\033[K{} {:.0f} %{}{}{}", what_, percent, detail.empty() ? "" : "  ", detail,
             left < 0 ? "" : "  " + FormatDuration(left) + " left");
  std::fflush(stderr);
  drawn_ = now;
  visible_ = true;
}

void Progress::Clear() {
  if (!visible_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  visible_ = false;
}

}  // namespace samestep
