// pack.h: text and JSONL files to a Megatron data set.
//
//   PackOptions options{.inputs = {"corpus.jsonl"}, .output = "corpus", .tokenizer =
//   "llama3/tokenizer.json"}; SAMESTEP_ASSIGN_OR_RETURN(PackReport report, PackFiles(options, progress));
//   // wrote corpus_text_document.bin and .idx, named as Megatron's tools/preprocess_data.py names them
//
// Files are read in batches, so that they may be larger than memory; a single document may not.
//
// Determinism: the same bytes for any number of threads: each document is tokenized alone, and they are
// written in the order of the input.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/megatron_index.h"

namespace samestep {

// What one document is, in a text file. In a JSONL file it is a line.
enum class DocumentRule { kFile, kLines, kBlankLines };
Result<DocumentRule> ParseDocumentRule(const std::string& name);  // "file", "lines", "blank-lines"

struct PackOptions {
  std::vector<std::string> inputs{};  // *.jsonl and *.json hold JSON lines, all others text
  std::string output{};               // prefix of the files to write
  std::string tokenizer = "bytes";    // see OpenTokenizer
  std::string json_key = "text";
  DocumentRule documents = DocumentRule::kFile;
  bool append_eod = true;
  std::string eod{};  // the token to append; empty: the tokenizer's own
};

struct PackReport {
  std::string prefix;  // of the files written
  TokenType type{};
  int64_t documents = 0;
  int64_t empty_documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;
  int64_t vocab_size = 0;
  int32_t eod = -1;  // -1: none was appended
};

// Called between batches with the bytes read so far and those of all files.
using PackProgress = std::function<void(int64_t done, int64_t total)>;

// Errors name file and line; then nothing is left behind, and an earlier data set of that name stays.
Result<PackReport> PackFiles(const PackOptions& options, const PackProgress& progress = nullptr);

}  // namespace samestep
