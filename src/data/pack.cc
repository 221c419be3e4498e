#include "data/pack.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/parallel_for.h"
#include "data/document_reader.h"
#include "data/tokenizer.h"

namespace samestep {
namespace {

constexpr int64_t kBatchBytes = int64_t{16} << 20;
constexpr int64_t kTasks = 64;  // a batch is cut into as many parts, however many threads there are

// What one task makes of its documents.
struct Packed {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  int64_t text_bytes = 0;
  Status status;
};

Result<std::string> TextOf(const RawDocument& document, const std::string& key) {
  try {
    const nlohmann::json json = nlohmann::json::parse(document.text);
    if (!json.is_object() || !json.contains(key)) {
      return InvalidError("no field \"{}\" in this JSON line; name it with --json-key", key);
    }
    if (!json[key].is_string()) return InvalidError("the field \"{}\" is not a string", key);
    return json[key].get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    return InvalidError("not a line of JSON: {}", error.what());
  }
}

class Packer {
 public:
  Packer(const PackOptions& options, const Tokenizer& tokenizer, MegatronWriter& writer, PackReport& report)
      : options_(options), tokenizer_(tokenizer), writer_(writer), report_(report) {}

  Status Add(const std::vector<RawDocument>& batch) {
    std::vector<Packed> parts(kTasks);
    const int64_t count = static_cast<int64_t>(batch.size());
    ParallelFor(kTasks, [&](int64_t task) {
      const size_t t = static_cast<size_t>(task);
      Pack(batch, count * task / kTasks, count * (task + 1) / kTasks, parts[t]);
    });
    for (const Packed& part : parts) {
      SAMESTEP_RETURN_IF_ERROR(part.status);
      SAMESTEP_RETURN_IF_ERROR(Write(part));
    }
    return {};
  }

 private:
  void Pack(const std::vector<RawDocument>& batch, int64_t first, int64_t last, Packed& out) {
    if (first == last) return;
    std::unique_ptr<Encoder> encoder = TakeEncoder();
    for (int64_t i = first; i < last; ++i) {
      const RawDocument& document = batch[static_cast<size_t>(i)];
      const size_t before = out.ids.size();
      Status status = PackOne(*encoder, document, out);
      if (!status.ok()) {
        out.status = Status(status.code(), fmt::format("{}:{}: {}", options_.inputs[document.file],
                                                       document.line, status.message()));
        break;
      }
      if (out.ids.size() > before && report_.eod >= 0) out.ids.push_back(report_.eod);
      out.lengths.push_back(static_cast<int64_t>(out.ids.size() - before));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(encoder));
  }

  std::unique_ptr<Encoder> TakeEncoder() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Encoder> encoder = std::move(idle_.back());
        idle_.pop_back();
        return encoder;
      }
    }
    return tokenizer_.NewEncoder();
  }

  Status PackOne(Encoder& encoder, const RawDocument& document, Packed& out) const {
    if (!document.json) {
      out.text_bytes += static_cast<int64_t>(document.text.size());
      return encoder.Encode(document.text, out.ids);
    }
    SAMESTEP_ASSIGN_OR_RETURN(const std::string text, TextOf(document, options_.json_key));
    out.text_bytes += static_cast<int64_t>(text.size());
    return encoder.Encode(text, out.ids);
  }

  Status Write(const Packed& part) {
    std::span<const int32_t> ids(part.ids);
    for (const int64_t length : part.lengths) {
      // As Megatron does it, an empty text is a document without sequences.
      if (length > 0) SAMESTEP_RETURN_IF_ERROR(writer_.AddSequence(ids.first(static_cast<size_t>(length))));
      if (length == 0) ++report_.empty_documents;
      writer_.EndDocument();
      ids = ids.subspan(static_cast<size_t>(length));
    }
    report_.text_bytes += part.text_bytes;
    return {};
  }

  const PackOptions& options_;
  const Tokenizer& tokenizer_;
  MegatronWriter& writer_;
  PackReport& report_;
  // As many as tasks ran at once; what one of them has cached serves whichever task takes it next.
  std::mutex mutex_;
  std::vector<std::unique_ptr<Encoder>> idle_;
};

}  // namespace

Result<DocumentRule> ParseDocumentRule(const std::string& name) {
  if (name == "file") return DocumentRule::kFile;
  if (name == "lines") return DocumentRule::kLines;
  if (name == "blank-lines") return DocumentRule::kBlankLines;
  return UsageError("--documents {}: it is one of file, lines, blank-lines", name);
}

Result<PackReport> PackFiles(const PackOptions& options, const PackProgress& progress) {
  if (options.inputs.empty()) return UsageError("no file to pack is named");
  if (options.output.empty()) return UsageError("no output is named (--output)");
  SAMESTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer,
                            OpenTokenizer(options.tokenizer, {.eod = options.eod}));
  if (options.append_eod && tokenizer->eod() < 0) {
    return UsageError(
        "{} has no token that is known to end documents; name it with --eod, or append none with --no-eod",
        tokenizer->name());
  }
  PackReport report;
  report.prefix = fmt::format("{}_{}_document", options.output, options.json_key);
  report.vocab_size = tokenizer->vocab_size();
  report.type = TokenTypeFor(report.vocab_size);
  report.eod = options.append_eod ? tokenizer->eod() : -1;
  int64_t total = 0;
  for (const std::string& input : options.inputs) {
    if (IsFolder(input)) return UsageError("{} is a folder; name files", input);
    SAMESTEP_ASSIGN_OR_RETURN(const uint64_t bytes, FileSize(input));
    total += static_cast<int64_t>(bytes);
  }
  SAMESTEP_ASSIGN_OR_RETURN(MegatronWriter writer, MegatronWriter::Create(report.prefix, report.type));
  Packer packer(options, *tokenizer, writer, report);
  std::vector<RawDocument> batch;
  int64_t batch_bytes = 0;
  int64_t done = 0;
  for (size_t file = 0; file < options.inputs.size(); ++file) {
    SAMESTEP_ASSIGN_OR_RETURN(DocumentReader reader,
                              DocumentReader::Open(options.inputs[file], options.documents));
    for (bool more = true; more;) {
      const size_t before = batch.size();
      const int64_t read_before = reader.bytes_read();
      SAMESTEP_ASSIGN_OR_RETURN(more, reader.Next(batch, kBatchBytes - batch_bytes));
      for (size_t i = before; i < batch.size(); ++i) {
        batch[i].file = file;
        batch_bytes += static_cast<int64_t>(batch[i].text.size());
      }
      done += reader.bytes_read() - read_before;
      if (batch_bytes < kBatchBytes && (more || file + 1 < options.inputs.size())) continue;
      SAMESTEP_RETURN_IF_ERROR(packer.Add(batch));
      batch.clear();
      batch_bytes = 0;
      if (progress) progress(done, total);
    }
  }
  if (writer.tokens() == 0) return InvalidError("{}: there is no text to pack", options.inputs[0]);
  SAMESTEP_RETURN_IF_ERROR(writer.Commit());
  report.documents = writer.documents();
  report.tokens = writer.tokens();
  return report;
}

}  // namespace samestep
