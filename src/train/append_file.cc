#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace samestep {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr std::chrono::seconds kLongestDelay{1};

Status SystemError(const char* action, const std::string& path) {
  const int error = errno;
  const char* hint = error == ENOSPC ? "; free some space, then resume the run" : "";
  return IoError("cannot {} {}: {}{}", action, path, std::strerror(error), hint);
}

}  // namespace

Result<AppendFile> AppendFile::Open(const std::string& path) {
  AppendFile file;
  file.path_ = path;
  file.flushed_ = std::chrono::steady_clock::now();
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return SystemError("open", path);
  return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept { *this = std::move(other); }

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(buffer_, other.buffer_);
  std::swap(flushed_, other.flushed_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ < 0) return;
  static_cast<void>(Flush());
  ::close(descriptor_);
}

Status AppendFile::Append(std::string_view piece) {
  buffer_ += piece;
  const bool due = std::chrono::steady_clock::now() - flushed_ >= kLongestDelay;
  return due || buffer_.size() >= kBufferBytes ? Flush() : Status();
}

Status AppendFile::Flush() {
  flushed_ = std::chrono::steady_clock::now();
  while (!buffer_.empty()) {
    const ssize_t written = ::write(descriptor_, buffer_.data(), buffer_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path_);
    buffer_.erase(0, static_cast<size_t>(written));
  }
  return {};
}

}  // namespace samestep
