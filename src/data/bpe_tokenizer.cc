#include "data/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "base/files.h"
#include "data/bpe_model.h"
#include "data/text_pipeline.h"
#include "data/unicode.h"

namespace samestep {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFile = uint64_t{1} << 28;
constexpr int64_t kMaxId = (int64_t{1} << 22) - 1;
constexpr size_t kMaxDocument = size_t{1} << 30;
constexpr int kMaxDepth = 64;

struct AddedToken {
  std::string content;  // normalized, if it is matched in normalized text
  int32_t id = 0;
  bool strip_left = false;
  bool strip_right = false;
};

// Finds added tokens: the leftmost, and of those the longest.
class AddedTokens {
 public:
  void Add(AddedToken token) {
    if (token.content.empty()) return;
    starts_[static_cast<uint8_t>(token.content[0])] = true;
    tokens_.push_back(std::move(token));
  }
  void Finish() {
    std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
      return std::tie(a.content, a.id) < std::tie(b.content, b.id);
    });
  }

  // Calls text(begin, end) and token(id) for all parts in order.
  template <typename Text, typename Token>
  void Cut(std::string_view text, const Text& on_text, const Token& on_token) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size() && !tokens_.empty();) {
      const AddedToken* token = starts_[static_cast<uint8_t>(text[at])] ? Longest(text.substr(at)) : nullptr;
      if (token == nullptr) {
        ++at;
        continue;
      }
      size_t begin = at;
      size_t end = at + token->content.size();
      at = end;
      if (token->strip_left) begin = std::max(done, SpaceBefore(text, begin));
      if (token->strip_right) end = SpaceAfter(text, end);
      if (done < begin) on_text(done, begin);
      on_token(token->id);
      done = std::max(done, end);
    }
    if (done < text.size()) on_text(done, text.size());
  }

 private:
  const AddedToken* Longest(std::string_view text) const {
    const AddedToken* longest = nullptr;
    auto low = tokens_.begin();
    auto high = tokens_.end();
    // Narrows the sorted tokens to those that start with one more byte of the text.
    for (size_t depth = 0; depth < text.size() && low != high; ++depth) {
      const auto byte = [depth](const AddedToken& t) {
        return depth < t.content.size() ? static_cast<uint8_t>(t.content[depth]) : -1;
      };
      const int wanted = static_cast<uint8_t>(text[depth]);
      low = std::partition_point(low, high, [&](const AddedToken& t) { return byte(t) < wanted; });
      high = std::partition_point(low, high, [&](const AddedToken& t) { return byte(t) == wanted; });
      if (low != high && low->content.size() == depth + 1) longest = &*low;
    }
    return longest;
  }

  static bool IsSpace(std::string_view text, size_t at) {
    return (UnicodeProperties(DecodeUtf8(text, at)) & kWhiteSpace) != 0;
  }
  static size_t SpaceBefore(std::string_view text, size_t at) {
    while (at > 0) {
      size_t start = at - 1;
      while (start > 0 && IsUtf8Continuation(text[start])) --start;
      if (!IsSpace(text, start)) break;
      at = start;
    }
    return at;
  }
  static size_t SpaceAfter(std::string_view text, size_t at) {
    while (at < text.size() && IsSpace(text, at)) at += Utf8Length(text[at]);
    return at;
  }

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> starts_{};
};

struct Parts {
  std::string name;
  BpeModel model;
  AddedTokens raw_tokens;         // matched in the text as it is
  AddedTokens normalized_tokens;  // matched in the normalized text
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizer> pre_tokenizers;
  std::vector<DecoderStep> decoders;
  std::string no_decoder;  // why Decode is refused
  std::vector<std::optional<std::string>> id_to_token;
  std::vector<bool> special;  // by id; left out when decoding
  int32_t eod = -1;
};

class BpeEncoder : public Encoder {
 public:
  explicit BpeEncoder(const Parts& parts) : parts_(parts) {}

  Status Encode(std::string_view text, std::vector<int32_t>& ids) override {
    if (text.size() > kMaxDocument) {
      return InvalidError(
          "a document of {} bytes; at most {} can be tokenized in one; split the text into documents",
          text.size(), kMaxDocument);
    }
    if (const size_t bad = FindInvalidUtf8(text); bad != std::string_view::npos) {
      return InvalidError(
          "byte {} of the document (0x{:02x}) is not UTF-8, which this tokenizer needs; convert the "
          "text, or use the tokenizer \"bytes\"",
          bad, static_cast<uint8_t>(text[bad]));
    }
    int64_t budget = SplitPattern::Budget(text.size());
    PieceCutter cutter(
        parts_.pre_tokenizers, [&](std::string_view piece) { parts_.model.Encode(piece, workspace_, ids); },
        budget);
    const auto add_token = [&](int32_t id) { ids.push_back(id); };
    parts_.raw_tokens.Cut(
        text,
        [&](size_t begin, size_t end) {
          std::string_view part = text.substr(begin, end - begin);
          std::string normalized;
          if (!parts_.normalizers.empty()) {
            normalized = NormalizeText(parts_.normalizers, part, budget);
            part = normalized;
          }
          parts_.normalized_tokens.Cut(
              part, [&](size_t b, size_t e) { cutter.Cut(part.substr(b, e - b), begin == 0 && b == 0); },
              add_token);
        },
        add_token);
    if (budget < 0) {
      return InvalidError("{}: a pattern takes too many steps on a document of {} bytes", parts_.name,
                          text.size());
    }
    return {};
  }

 private:
  const Parts& parts_;
  BpeWorkspace workspace_;
};

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(Parts parts) : parts_(std::move(parts)) {}
  std::string name() const override { return parts_.name; }
  int64_t vocab_size() const override { return static_cast<int64_t>(parts_.id_to_token.size()); }
  int32_t eod() const override { return parts_.eod; }
  std::unique_ptr<Encoder> NewEncoder() const override { return std::make_unique<BpeEncoder>(parts_); }

  Result<std::string> Decode(std::span<const int32_t> ids) const override {
    if (!parts_.no_decoder.empty()) return InvalidError("{}: {}", parts_.name, parts_.no_decoder);
    std::vector<std::string> tokens;
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocab_size() || !parts_.id_to_token[static_cast<size_t>(id)]) {
        return InvalidError("token {} is not in the vocabulary of {}", id, parts_.name);
      }
      if (!parts_.special[static_cast<size_t>(id)])
        tokens.push_back(*parts_.id_to_token[static_cast<size_t>(id)]);
    }
    return DecodeTokens(parts_.decoders, std::move(tokens));
  }

 private:
  Parts parts_;
};

// Brackets within brackets. The parser of JSON needs no stack for them, but what walks its result does, its
// dump() included.
bool IsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '[' || c == '{')) {
      if (++depth > kMaxDepth) return true;
    } else if (!in_string && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

// Reads the parts of a tokenizer.json. A type error within Json throws and is caught by the caller.
class Loader {
 public:
  Loader(const Json& root, std::string name, const TokenizerOptions& options)
      : root_(root), name_(std::move(name)), options_(options) {}

  Result<std::shared_ptr<const Tokenizer>> Load() {
    if (!root_.is_object() || !root_.contains("model"))
      return Bad("it has no \"model\"; is it a tokenizer.json?");
    if (root_.value("version", "1.0") != "1.0")
      return Bad("version {} is not supported", root_["version"].dump());
    for (const char* field : {"truncation", "padding"}) {
      if (!IsNull(root_, field))
        return Bad("\"{}\" is set; set it to null: documents are packed whole", field);
    }
    Parts parts;
    parts.name = name_;
    SAMESTEP_RETURN_IF_ERROR(LoadNormalizer(parts));
    SAMESTEP_RETURN_IF_ERROR(LoadPreTokenizer(parts));
    SAMESTEP_RETURN_IF_ERROR(LoadDecoder(parts));
    SAMESTEP_RETURN_IF_ERROR(LoadModel(parts));
    SAMESTEP_RETURN_IF_ERROR(LoadAddedTokens(parts));
    SAMESTEP_RETURN_IF_ERROR(FindEod(parts));
    // Hugging Face decodes a token that is matched in normalized text to what it is there.
    for (auto& [id, content] : normalized_contents_)
      parts.id_to_token[static_cast<size_t>(id)] = std::move(content);
    return std::shared_ptr<const Tokenizer>(std::make_shared<BpeTokenizer>(std::move(parts)));
  }

 private:
  template <typename... A>
  Status Bad(fmt::format_string<A...> format, A&&... args) const {
    return InvalidError("{}: {}", name_, fmt::format(format, std::forward<A>(args)...));
  }
  static bool IsNull(const Json& object, const char* field) {
    return !object.contains(field) || object[field].is_null();
  }
  // A list of steps of which some are sequences, flat.
  static std::vector<const Json*> Flatten(const Json& step, const char* list) {
    std::vector<const Json*> steps;
    if (step.is_null()) return steps;
    if (step.at("type") != "Sequence") return {&step};
    for (const Json& child : step.at(list)) {
      const std::vector<const Json*> more = Flatten(child, list);
      steps.insert(steps.end(), more.begin(), more.end());
    }
    return steps;
  }
  Result<SplitPattern> Pattern(const Json& pattern) const {
    if (pattern.contains("String")) {
      const std::string text = pattern["String"];
      if (text.empty()) return Bad("a pattern is the empty string");
      return SplitPattern::Literal(text);
    }
    Result<SplitPattern> result = SplitPattern::Compile(pattern.at("Regex").get<std::string>());
    if (!result.ok()) return Bad("{}", result.status().message());
    return result;
  }

  Status LoadNormalizer(Parts& parts) {
    if (IsNull(root_, "normalizer")) return {};
    for (const Json* step : Flatten(root_["normalizer"], "normalizers")) {
      const std::string type = step->at("type");
      Normalizer normalizer;
      if (type == "NFC") {
        normalizer.kind = Normalizer::kNfc;
      } else if (type == "Prepend") {
        normalizer.kind = Normalizer::kPrepend;
        normalizer.text = step->at("prepend");
      } else if (type == "Replace") {
        normalizer.kind = Normalizer::kReplace;
        SAMESTEP_ASSIGN_OR_RETURN(normalizer.pattern, Pattern(step->at("pattern")));
        normalizer.text = step->at("content");
      } else {
        return Bad("the normalizer {} is not supported (NFC, Prepend, Replace and sequences of them are)",
                   type);
      }
      parts.normalizers.push_back(std::move(normalizer));
    }
    return {};
  }

  Status LoadPreTokenizer(Parts& parts) {
    if (IsNull(root_, "pre_tokenizer")) return {};
    for (const Json* step : Flatten(root_["pre_tokenizer"], "pretokenizers")) {
      if (byte_level_) return Bad("a pre-tokenizer after ByteLevel is not supported");
      SAMESTEP_ASSIGN_OR_RETURN(PreTokenizer pre, LoadPreTokenizerStep(*step));
      byte_level_ = pre.kind == PreTokenizer::kByteLevel;
      parts.pre_tokenizers.push_back(std::move(pre));
    }
    return {};
  }

  Result<PreTokenizer> LoadPreTokenizerStep(const Json& step) {
    const std::string type = step.at("type");
    PreTokenizer pre;
    if (type == "ByteLevel") {
      pre.kind = PreTokenizer::kByteLevel;
      pre.prefix_space = step.at("add_prefix_space");
      pre.use_pattern = step.value("use_regex", true);
      SAMESTEP_ASSIGN_OR_RETURN(pre.pattern, SplitPattern::Compile(SplitPattern::kGpt2));
    } else if (type == "Split") {
      SAMESTEP_ASSIGN_OR_RETURN(pre.pattern, Pattern(step.at("pattern")));
      pre.invert = step.at("invert");
      constexpr const char* kBehaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                            "Contiguous"};
      const auto at = std::find(std::begin(kBehaviors), std::end(kBehaviors), step.at("behavior"));
      if (at == std::end(kBehaviors))
        return Bad("the split behavior {} is unknown", step.at("behavior").dump());
      pre.behavior = static_cast<SplitBehavior>(at - std::begin(kBehaviors));
    } else if (type == "Digits") {
      pre.kind = PreTokenizer::kDigits;
      pre.individual = step.at("individual_digits");
    } else if (type == "Metaspace") {
      return LoadMetaspace(step);
    } else {
      return Bad(
          "the pre-tokenizer {} is not supported (ByteLevel, Split, Digits, Metaspace and sequences of them "
          "are)",
          type);
    }
    return pre;
  }

  Result<PreTokenizer> LoadMetaspace(const Json& step) {
    PreTokenizer pre;
    pre.kind = PreTokenizer::kMetaspace;
    pre.replacement = step.at("replacement");
    if (pre.replacement.empty()) return Bad("the replacement of Metaspace is empty");
    pre.pattern = SplitPattern::Literal(pre.replacement);
    pre.split = step.value("split", true);
    // Files from before prepend_scheme have add_prefix_space.
    const bool add = step.value("add_prefix_space", true);
    const std::string scheme = step.value("prepend_scheme", add ? "always" : "never");
    if (scheme == "always") {
      pre.prepend = PreTokenizer::kAlways;
    } else if (scheme == "first") {
      pre.prepend = PreTokenizer::kFirst;
    } else if (scheme != "never") {
      return Bad("the prepend scheme {} of Metaspace is unknown", scheme);
    }
    return pre;
  }

  Status LoadDecoder(Parts& parts) {
    if (IsNull(root_, "decoder")) {
      parts.no_decoder = "it has no decoder, so tokens cannot be turned into text";
      return {};
    }
    for (const Json* step : Flatten(root_["decoder"], "decoders")) {
      const std::string type = step->at("type");
      DecoderStep decoder;
      if (type == "ByteLevel") {
        decoder.kind = DecoderStep::kByteLevel;
      } else if (type == "Metaspace") {
        decoder.kind = DecoderStep::kMetaspace;
        decoder.text = step->at("replacement");
        decoder.drop_first = step->value("prepend_scheme", "always") != "never";
      } else if (type == "Replace" && step->at("pattern").contains("String")) {
        decoder.kind = DecoderStep::kReplace;
        decoder.pattern = step->at("pattern")["String"];
        decoder.text = step->at("content");
      } else if (type == "ByteFallback") {
        decoder.kind = DecoderStep::kByteFallback;
      } else if (type == "Fuse") {
        decoder.kind = DecoderStep::kFuse;
      } else if (type == "Strip") {
        decoder.kind = DecoderStep::kStrip;
        decoder.pattern = step->at("content");
        decoder.start = step->at("start");
        decoder.stop = step->at("stop");
      } else {
        parts.no_decoder =
            fmt::format("its decoder {} is not supported, so tokens cannot be turned into text", type);
        return {};
      }
      if (decoder.kind != DecoderStep::kByteLevel && decoder.kind != DecoderStep::kByteFallback &&
          decoder.kind != DecoderStep::kFuse && decoder.pattern.empty() && decoder.text.empty()) {
        return Bad("the decoder {} replaces the empty string", type);
      }
      parts.decoders.push_back(std::move(decoder));
    }
    return {};
  }

  Status LoadModel(Parts& parts) {
    const Json& model = root_["model"];
    const std::string type = model.value("type", "BPE");
    if (type != "BPE") return Bad("the model {} is not supported (BPE is)", type);
    if (!IsNull(model, "dropout") && model["dropout"] != 0.0)
      return Bad("dropout of merges is not supported");
    for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!IsNull(model, field) && model[field] != "")
        return Bad("{} {} is not supported", field, model[field].dump());
    }
    BpeParts bpe;
    bpe.byte_level = byte_level_;
    bpe.byte_fallback = model.value("byte_fallback", false);
    bpe.fuse_unknown = model.value("fuse_unk", false);
    bpe.ignore_merges = model.value("ignore_merges", false);
    if (!IsNull(model, "unk_token")) bpe.unknown = model["unk_token"];
    if (!model.at("vocab").is_object() || !model.at("merges").is_array()) {
      return Bad("not a model of BPE: \"vocab\" maps tokens to ids, \"merges\" is a list");
    }
    for (const auto& [token, id] : model.at("vocab").items()) {
      SAMESTEP_RETURN_IF_ERROR(AddId(id, token, parts));
      bpe.vocab.emplace(token, id.get<int32_t>());
    }
    for (const Json& merge : model.at("merges")) {
      if (merge.is_string()) {
        SAMESTEP_RETURN_IF_ERROR(AddMergeLine(merge.get_ref<const std::string&>(), bpe));
      } else if (merge.is_array() && merge.size() == 2) {
        bpe.merges.emplace_back(merge[0], merge[1]);
      } else {
        return Bad("merge {} is neither two strings nor one with a space", merge.dump());
      }
    }
    Result<BpeModel> made = BpeModel::Make(std::move(bpe));
    if (!made.ok()) return Bad("{}", made.status().message());
    parts.model = std::move(made).value();
    return {};
  }

  Status AddMergeLine(const std::string& line, BpeParts& bpe) const {
    if (line.starts_with("#version")) return {};
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      return Bad("merge \"{}\" is not two strings with a space between them", line);
    }
    bpe.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    return {};
  }

  Status AddId(const Json& id, const std::string& token, Parts& parts) const {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kMaxId)) {
      return Bad("token \"{}\" has id {}; ids are whole numbers up to {}", token, id.dump(), kMaxId);
    }
    const size_t i = id.get<size_t>();
    if (i >= parts.id_to_token.size()) {
      parts.id_to_token.resize(i + 1);
      parts.special.resize(i + 1);
    }
    if (parts.id_to_token[i] && *parts.id_to_token[i] != token) {
      return Bad("id {} is that of \"{}\" and of \"{}\"", i, *parts.id_to_token[i], token);
    }
    parts.id_to_token[i] = token;
    return {};
  }

  Status LoadAddedTokens(Parts& parts) {
    if (IsNull(root_, "added_tokens")) return {};
    const int64_t model_size = static_cast<int64_t>(parts.model.vocab().size());
    int64_t largest = -1;  // id of an added token
    for (const Json& token : root_["added_tokens"]) {
      const std::string content = token.at("content");
      if (content.empty()) return Bad("an added token is empty");
      if (token.value("single_word", false))
        return Bad("single_word of the added token \"{}\" is not supported", content);
      // The file's ids are comments to Hugging Face, which counts for itself.
      int64_t expected = parts.model.Find(content);
      if (expected < 0) expected = largest >= model_size ? largest + 1 : model_size;
      const Json& id = token.at("id");
      SAMESTEP_RETURN_IF_ERROR(AddId(id, content, parts));
      if (id.get<int64_t>() != expected) {
        return Bad("the added token \"{}\" has id {}, but by its place it is {}", content, id.dump(),
                   expected);
      }
      largest = std::max(largest, expected);
      if (token.at("special")) parts.special[static_cast<size_t>(expected)] = true;
      AddedToken added{.content = content,
                       .id = static_cast<int32_t>(expected),
                       .strip_left = token.at("lstrip"),
                       .strip_right = token.at("rstrip")};
      if (token.at("normalized")) {
        int64_t budget = SplitPattern::Budget(content.size());
        added.content = NormalizeText(parts.normalizers, content, budget);
        normalized_contents_.emplace_back(added.id, added.content);
        parts.normalized_tokens.Add(std::move(added));
      } else {
        parts.raw_tokens.Add(std::move(added));
      }
    }
    parts.raw_tokens.Finish();
    parts.normalized_tokens.Finish();
    return {};
  }

  Status FindEod(Parts& parts) const {
    const auto find = [&](std::string_view token) {
      const auto at = std::find(parts.id_to_token.begin(), parts.id_to_token.end(), token);
      return at == parts.id_to_token.end() ? -1 : static_cast<int32_t>(at - parts.id_to_token.begin());
    };
    if (!options_.eod.empty()) {
      parts.eod = find(options_.eod);
      if (parts.eod < 0) return UsageError("{}: no token is called \"{}\" (--eod)", name_, options_.eod);
      return {};
    }
    for (const char* token : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>"}) {
      if (parts.eod < 0) parts.eod = find(token);
    }
    return {};
  }

  const Json& root_;
  std::string name_;
  TokenizerOptions options_;
  bool byte_level_ = false;
  std::vector<std::pair<int32_t, std::string>> normalized_contents_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> ParseHuggingFaceTokenizer(std::string_view json,
                                                                   const std::string& name,
                                                                   const TokenizerOptions& options) {
  if (IsTooDeep(json)) return InvalidError("{}: nested deeper than {} levels", name, kMaxDepth);
  try {
    const Json root = Json::parse(json);
    return Loader(root, name, options).Load();
  } catch (const Json::exception& error) {
    return InvalidError("{}: not a tokenizer.json: {}", name, error.what());
  }
}

Result<std::shared_ptr<const Tokenizer>> LoadHuggingFaceTokenizer(const std::string& path,
                                                                  const TokenizerOptions& options) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::string json, ReadFile(path, kMaxFile));
  return ParseHuggingFaceTokenizer(json, path, options);
}

Result<std::shared_ptr<const Tokenizer>> LoadGpt2Tokenizer(const std::string& merges_path,
                                                           const std::string& vocab_path,
                                                           const TokenizerOptions& options) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::string merges, ReadFile(merges_path, kMaxFile));
  SAMESTEP_ASSIGN_OR_RETURN(const std::string vocab, ReadFile(vocab_path, kMaxFile));
  if (IsTooDeep(vocab)) return InvalidError("{}: nested deeper than {} levels", vocab_path, kMaxDepth);
  try {
    Json root = {{"model", {{"type", "BPE"}, {"vocab", Json::parse(vocab)}, {"merges", Json::array()}}},
                 {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
                 {"decoder", {{"type", "ByteLevel"}}}};
    for (size_t at = 0; at < merges.size();) {
      const size_t end = std::min(merges.find('\n', at), merges.size());
      std::string_view line(merges.data() + at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) root["model"]["merges"].push_back(line);
      at = end + 1;
    }
    return Loader(root, vocab_path, options).Load();
  } catch (const Json::exception& error) {
    return InvalidError("{}: not GPT-2's encoder.json and vocab.bpe: {}", vocab_path, error.what());
  }
}

}  // namespace samestep
