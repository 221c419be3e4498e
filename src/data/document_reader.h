// document_reader.h: cuts text and JSONL files into documents, a batch at a time.
//
//   SAMESTEP_ASSIGN_OR_RETURN(DocumentReader reader, DocumentReader::Open("a.txt", DocumentRule::kLines));
//   std::vector<RawDocument> batch;
//   SAMESTEP_ASSIGN_OR_RETURN(bool more, reader.Next(batch, 16 << 20));
//
// Determinism: a function of the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/pack.h"

namespace samestep {

struct RawDocument {
  std::string text;  // of a JSONL file: the line
  size_t file = 0;   // set by the caller of Next
  int64_t line = 0;  // where it starts, from 1
  bool json = false;
};

class DocumentReader {
 public:
  static Result<DocumentReader> Open(const std::string& path, DocumentRule rule);
  DocumentReader(DocumentReader&&) noexcept;
  ~DocumentReader();

  // Appends documents until they have `bytes` or the file ends; false: it has ended.
  Result<bool> Next(std::vector<RawDocument>& batch, int64_t bytes);
  int64_t bytes_read() const { return bytes_read_; }
  const std::string& path() const { return path_; }

 private:
  DocumentReader() = default;
  Result<bool> ReadLine(std::string& line, bool& terminated);
  Status Fill();
  Status AddWholeFile(std::vector<RawDocument>& batch);

  std::string path_;
  DocumentRule rule_{};
  bool json_ = false;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  size_t at_ = 0;
  size_t size_ = 0;
  bool ended_ = false;
  int64_t line_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace samestep
