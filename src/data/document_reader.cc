#include "data/document_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace samestep {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kMaxDocument = size_t{1} << 30;

Status TooLong(const std::string& path, int64_t line) {
  return InvalidError(
      "{}:{}: a document of more than {} bytes; cut the text into documents (--documents lines or "
      "blank-lines, or one JSON line each)",
      path, line, kMaxDocument);
}

}  // namespace

Result<DocumentReader> DocumentReader::Open(const std::string& path, DocumentRule rule) {
  DocumentReader reader;
  reader.path_ = path;
  reader.rule_ = rule;
  reader.json_ = path.ends_with(".jsonl") || path.ends_with(".json");
  reader.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (reader.descriptor_ < 0) {
    if (errno == ENOENT) return NotFoundError("cannot open {}: it does not exist", path);
    return IoError("cannot open {}: {}", path, std::strerror(errno));
  }
  reader.buffer_.resize(kBufferBytes);
  return reader;
}

DocumentReader::DocumentReader(DocumentReader&& other) noexcept
    : path_(std::move(other.path_)),
      rule_(other.rule_),
      json_(other.json_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      at_(other.at_),
      size_(other.size_),
      ended_(other.ended_),
      line_(other.line_),
      bytes_read_(other.bytes_read_) {}

DocumentReader::~DocumentReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status DocumentReader::Fill() {
  for (;;) {
    const ssize_t n = ::read(descriptor_, buffer_.data(), buffer_.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError("cannot read {}: {}", path_, std::strerror(errno));
    at_ = 0;
    size_ = static_cast<size_t>(n);
    ended_ = n == 0;
    bytes_read_ += n;
    return {};
  }
}

// Appends one line without its end to `line`; false: the file has ended before it.
Result<bool> DocumentReader::ReadLine(std::string& line, bool& terminated) {
  bool any = false;
  terminated = false;
  while (!terminated) {
    if (at_ == size_) SAMESTEP_RETURN_IF_ERROR(Fill());
    if (ended_) break;
    any = true;
    const char* from = buffer_.data() + at_;
    const char* end = static_cast<const char*>(std::memchr(from, '\n', size_ - at_));
    const size_t length = end != nullptr ? static_cast<size_t>(end - from) : size_ - at_;
    line.append(from, length);
    at_ += length;
    if (end != nullptr) {
      ++at_;
      terminated = true;
    }
    if (line.size() > kMaxDocument) return TooLong(path_, line_ + 1);
  }
  if (any) ++line_;
  return any;
}

Status DocumentReader::AddWholeFile(std::vector<RawDocument>& batch) {
  RawDocument document{.text = {}, .line = 1};
  for (;;) {
    if (at_ == size_) SAMESTEP_RETURN_IF_ERROR(Fill());
    if (ended_) break;
    document.text.append(buffer_.data() + at_, size_ - at_);
    at_ = size_;
    if (document.text.size() > kMaxDocument) return TooLong(path_, 1);
  }
  batch.push_back(std::move(document));
  return {};
}

Result<bool> DocumentReader::Next(std::vector<RawDocument>& batch, int64_t bytes) {
  if (ended_) return false;
  if (!json_ && rule_ == DocumentRule::kFile) {
    SAMESTEP_RETURN_IF_ERROR(AddWholeFile(batch));
    return true;
  }
  const bool paragraphs = !json_ && rule_ == DocumentRule::kBlankLines;
  RawDocument document;
  int64_t added = 0;
  while (added < bytes) {
    std::string line;
    bool terminated = false;
    SAMESTEP_ASSIGN_OR_RETURN(const bool any, ReadLine(line, terminated));
    const bool blank = line.find_first_not_of(" \t\r") == std::string::npos;
    if (paragraphs && any && !blank) {
      if (document.text.empty()) document.line = line_;
      document.text += line;
      if (terminated) document.text += '\n';
      if (document.text.size() > kMaxDocument) return TooLong(path_, document.line);
      continue;
    }
    if (!paragraphs && !blank) document = {.text = std::move(line), .line = line_, .json = json_};
    if (!document.text.empty()) {
      added += static_cast<int64_t>(document.text.size());
      batch.push_back(std::exchange(document, {}));
    }
    if (!any) break;
  }
  return true;
}

}  // namespace samestep
