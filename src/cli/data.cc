// samestep data pack, info, tokenize: text to token files, and a look at them.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/parallel_for.h"
#include "base/progress.h"
#include "cli/command.h"
#include "data/megatron_index.h"
#include "data/pack.h"
#include "data/tokenizer.h"

namespace samestep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTokenizerHelp =
    "\"bytes\", a tokenizer.json (BPE), or a folder with one or with GPT-2's vocab.bpe and encoder.json";

struct PackArguments {
  PackOptions options;
  std::string documents = "file";
  int threads = 0;
  bool no_eod = false;
};

Json PackJson(const PackReport& report, const std::string& digest) {
  return {{"prefix", report.prefix},
          {"documents", report.documents},
          {"empty_documents", report.empty_documents},
          {"tokens", report.tokens},
          {"text_bytes", report.text_bytes},
          {"token_type", TokenTypeName(report.type)},
          {"vocab_size", report.vocab_size},
          {"eod", report.eod},
          {"digest", digest}};
}

int RunPack(const PackArguments& a, const Output& out) {
  PackOptions options = a.options;
  options.append_eod = !a.no_eod;
  const Result<DocumentRule> rule = ParseDocumentRule(a.documents);
  if (!rule.ok()) return out.Error(rule.status());
  options.documents = *rule;
  SetSchedule({.threads = a.threads});

  std::unique_ptr<Progress> progress;
  const Result<PackReport> report = PackFiles(options, [&](int64_t done, int64_t total) {
    if (!progress) progress = std::make_unique<Progress>("packing", total);
    progress->Update(done, fmt::format("{:.1f} of {:.1f} MB", static_cast<double>(done) * 1e-6,
                                       static_cast<double>(total) * 1e-6));
  });
  progress.reset();
  if (!report.ok()) return out.Error(report.status());
  const Result<MegatronDataset> data = MegatronDataset::Open(report->prefix);
  if (!data.ok()) return out.Error(data.status());
  const std::string digest = data->Digest().hex();
  std::string text = fmt::format(
      "wrote {}.bin and .idx\n{} documents, {} tokens ({}) of {} bytes, digest {}\n", report->prefix,
      report->documents, report->tokens, TokenTypeName(report->type), report->text_bytes, digest);
  text += fmt::format("use it in a recipe: data.path = \"{}\", model.vocab = {}", report->prefix,
                      report->vocab_size);
  out.Result(PackJson(*report, digest), text);
  if (report->documents < 100) {
    out.Warning(fmt::format(
        "{} document{}: a split such as 99,1,0 may leave none for validation; cut text files into "
        "more with --documents lines or blank-lines",
        report->documents, report->documents == 1 ? "" : "s"));
  }
  return 0;
}

struct InfoArguments {
  std::string prefix, tokenizer;
  bool scan = false;
  int64_t show = -1;
};

// The smallest and the largest id, and how many sequences hold how many tokens.
Status Scan(const MegatronDataset& data, Json& object, std::string& text) {
  std::vector<int32_t> tokens;
  int32_t smallest = std::numeric_limits<int32_t>::max(), largest = -1, longest = 0;
  Progress progress("reading", data.sequences());
  for (int64_t i = 0; i < data.sequences(); ++i) {
    tokens.resize(static_cast<size_t>(data.length(i)));
    SAMESTEP_RETURN_IF_ERROR(data.Read(i, 0, tokens, std::numeric_limits<int32_t>::max()));
    for (const int32_t token : tokens) {
      smallest = std::min(smallest, token);
      largest = std::max(largest, token);
    }
    longest = std::max(longest, data.length(i));
    progress.Update(i + 1);
  }
  if (largest < 0) smallest = -1;
  object["smallest_id"] = smallest;
  object["largest_id"] = largest;
  object["longest_sequence"] = longest;
  text += fmt::format("\nids {} to {}, longest sequence {} tokens", smallest, largest, longest);
  return {};
}

// One sequence as ids, and as text if a tokenizer is named.
Status Show(const MegatronDataset& data, const InfoArguments& a, Json& object, std::string& text) {
  if (a.show >= data.sequences()) {
    return UsageError("--show {}: there are {} sequences, counted from 0", a.show, data.sequences());
  }
  std::vector<int32_t> tokens(static_cast<size_t>(data.length(a.show)));
  SAMESTEP_RETURN_IF_ERROR(data.Read(a.show, 0, tokens, std::numeric_limits<int32_t>::max()));
  object["ids"] = tokens;
  if (a.tokenizer.empty()) {
    text += fmt::format("\n{}", fmt::join(tokens, " "));
    return {};
  }
  SAMESTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, OpenTokenizer(a.tokenizer));
  SAMESTEP_ASSIGN_OR_RETURN(const std::string decoded, tokenizer->Decode(tokens));
  object["text"] = decoded;
  text += "\n" + decoded;
  return {};
}

int RunInfo(const InfoArguments& a, const Output& out) {
  const Result<MegatronDataset> data = MegatronDataset::Open(a.prefix);
  if (!data.ok()) return out.Error(data.status());
  const std::string digest = data->Digest().hex();
  Json object = {{"prefix", a.prefix},
                 {"token_type", TokenTypeName(data->type())},
                 {"documents", data->documents()},
                 {"sequences", data->sequences()},
                 {"tokens", data->tokens()},
                 {"digest", digest}};
  std::string text =
      fmt::format("{}: {} documents, {} sequences, {} tokens ({})\ndigest {}", a.prefix, data->documents(),
                  data->sequences(), data->tokens(), TokenTypeName(data->type()), digest);
  if (a.scan) {
    if (const Status status = Scan(*data, object, text); !status.ok()) return out.Error(status);
  }
  if (a.show >= 0) {
    if (const Status status = Show(*data, a, object, text); !status.ok()) return out.Error(status);
  }
  out.Result(object, text);
  return 0;
}

struct TokenizeArguments {
  std::string file, tokenizer = "bytes", eod;
  bool json_lines = false, decode = false;
};

constexpr size_t kMaxText = size_t{1} << 30;

Result<std::string> ReadText(std::istream& in, const std::string& name) {
  std::string text;
  std::vector<char> chunk(size_t{1} << 20);
  do {
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    text.append(chunk.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxText) return InvalidError("{}: more than {} bytes of text", name, kMaxText);
  } while (in);
  if (in.bad()) return IoError("cannot read {}", name);
  return text;
}

Result<std::vector<int32_t>> IdsOf(const Json& json) {
  if (!json.is_array()) return InvalidError("expected a JSON list of ids");
  std::vector<int32_t> ids;
  for (const Json& id : json) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      return InvalidError("{} is not an id; ids are whole numbers from 0 to {}",
                          id.is_primitive() ? id.dump() : id.type_name(),
                          std::numeric_limits<int32_t>::max());
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// One line of the answer, or why there is none.
Result<Json> TokenizeLine(const Json& json, const Tokenizer& tokenizer, Encoder& encoder, bool decode) {
  std::vector<int32_t> ids;
  if (!decode) {
    if (!json.is_string()) return InvalidError("expected a JSON string");
    SAMESTEP_RETURN_IF_ERROR(encoder.Encode(json.get_ref<const std::string&>(), ids));
    return Json(ids);
  }
  SAMESTEP_ASSIGN_OR_RETURN(ids, IdsOf(json));
  SAMESTEP_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(ids));
  return Json(std::move(text));
}

// One line in, one line out: a JSON string to its ids, or with --decode ids to their text.
Status TokenizeLines(const TokenizeArguments& a, const Tokenizer& tokenizer, std::istream& in) {
  const std::unique_ptr<Encoder> encoder = tokenizer.NewEncoder();
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const Result<Json> result = TokenizeLine(Json::parse(line), tokenizer, *encoder, a.decode);
      if (!result.ok()) {
        return Status(result.status().code(),
                      fmt::format("{}:{}: {}", a.file, number, result.status().message()));
      }
      fmt::print("{}\n", result->dump(-1, ' ', true, Json::error_handler_t::replace));
    } catch (const Json::exception& error) {
      return InvalidError("{}:{}: {}", a.file, number, error.what());
    }
  }
  return in.bad() ? IoError("cannot read {}", a.file) : Status();
}

int RunTokenize(const TokenizeArguments& a, const Output& out) {
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = OpenTokenizer(a.tokenizer, {.eod = a.eod});
  if (!tokenizer.ok()) return out.Error(tokenizer.status());
  if (a.decode && !a.json_lines)
    return out.Error(UsageError("--decode reads lines of ids; add --json-lines"));
  if (IsFolder(a.file)) return out.Error(UsageError("{} is a folder; name a file", a.file));
  std::ifstream file;
  if (a.file != "-") file.open(a.file, std::ios::binary);
  if (!file) return out.Error(NotFoundError("cannot open {}", a.file));
  std::istream& in = a.file == "-" ? std::cin : file;
  if (a.json_lines) {
    const Status status = TokenizeLines(a, **tokenizer, in);
    return status.ok() ? 0 : out.Error(status);
  }
  const Result<std::string> text = ReadText(in, a.file);
  if (!text.ok()) return out.Error(text.status());
  const Result<std::vector<int32_t>> ids = (*tokenizer)->Encode(*text);
  if (!ids.ok()) return out.Error(ids.status());
  out.Result({{"ids", *ids}, {"vocab_size", (*tokenizer)->vocab_size()}, {"eod", (*tokenizer)->eod()}},
             fmt::format("{}", fmt::join(*ids, " ")));
  return 0;
}

const bool pack_registered =
    RegisterCommand("data pack", "Pack text or JSONL into token files (.bin/.idx)", [](CLI::App& app) {
      auto a = std::make_shared<PackArguments>();
      app.add_option("FILE", a->options.inputs,
                     "Files: *.jsonl and *.json hold a document a line, others text")
          ->required();
      app.add_option("-o,--output", a->options.output,
                     "Prefix of the files: PREFIX_text_document.bin and .idx, as Megatron names them")
          ->required();
      app.add_option("--tokenizer", a->options.tokenizer, kTokenizerHelp)->capture_default_str();
      app.add_option("--json-key", a->options.json_key, "Field of a JSON line that holds the text")
          ->capture_default_str();
      app.add_option(
             "--documents", a->documents,
             "What a document is in a text file: file, lines, or blank-lines (text between blank lines)")
          ->capture_default_str();
      app.add_option("--eod", a->options.eod,
                     "Token appended to each document (default: the tokenizer's own)");
      app.add_flag("--no-eod", a->no_eod, "Append no token to documents");
      app.add_option("--threads", a->threads, "Threads (default: one for each core); changes no byte")
          ->check(CLI::Range(1, 1024));
      app.footer(
          "Examples:\n  samestep data pack book.txt --documents blank-lines -o data/book\n"
          "  samestep data pack wiki-*.jsonl --tokenizer llama3/tokenizer.json -o data/wiki");
      return [a](const Output& out) { return RunPack(*a, out); };
    });

const bool info_registered =
    RegisterCommand("data info", "Check token files (.bin/.idx) and say what is in them", [](CLI::App& app) {
      auto a = std::make_shared<InfoArguments>();
      app.add_option("PREFIX", a->prefix, "Path of the files without .bin and .idx")->required();
      app.add_flag("--scan", a->scan, "Read every token, too: smallest and largest id");
      app.add_option("--show", a->show, "Print the sequence of this number, from 0")
          ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
      app.add_option("--tokenizer", a->tokenizer, "Print it as text: " + std::string(kTokenizerHelp));
      app.footer("Example:\n  samestep data info data/book_text_document --show 0 --tokenizer bytes");
      return [a](const Output& out) { return RunInfo(*a, out); };
    });

const bool tokenize_registered =
    RegisterCommand("data tokenize", "Print the token ids of a text", [](CLI::App& app) {
      auto a = std::make_shared<TokenizeArguments>();
      app.add_option("FILE", a->file, "Text file, or - for standard input")->required();
      app.add_option("--tokenizer", a->tokenizer, kTokenizerHelp)->capture_default_str();
      app.add_flag("--json-lines", a->json_lines,
                   "Each line is a JSON string; print a JSON list of ids for each")
          ->excludes("--json");
      app.add_flag("--decode", a->decode, "With --json-lines: lines are lists of ids; print their texts");
      app.footer("Example:\n  echo 'In the beginning' | samestep data tokenize - --tokenizer gpt2/");
      return [a](const Output& out) { return RunTokenize(*a, out); };
    });

}  // namespace
}  // namespace samestep
