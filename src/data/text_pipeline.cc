#include "data/text_pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "data/bpe_model.h"
#include "data/unicode.h"

namespace samestep {
namespace {

std::string ReplaceMatches(const SplitPattern& pattern, std::string_view text, const std::string& by,
                           int64_t& budget) {
  std::string result;
  size_t from = 0;
  for (SplitPattern::Match match; pattern.Find(text, from, match, budget); from = match.end) {
    result.append(text, from, match.begin - from);
    result += by;
  }
  result.append(text, from);
  return result;
}

// Joins matches and the text between them to pieces, by the rules of Hugging Face's SplitDelimiterBehavior.
class PieceJoiner {
 public:
  PieceJoiner(SplitBehavior behavior, std::function<void(size_t, size_t)> emit)
      : behavior_(behavior), emit_(std::move(emit)) {}

  // Stretches come in order and are not empty.
  void Add(size_t begin, size_t end, bool is_match) {
    const bool previous_match = any_ && was_match_;
    bool join = false;
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (is_match) return;
        break;
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kContiguous:
        join = any_ && is_match == was_match_;
        break;
      case SplitBehavior::kMergedWithPrevious:
        join = any_ && is_match && !previous_match;
        break;
      case SplitBehavior::kMergedWithNext:
        join = previous_match && !is_match;
        break;
    }
    if (!join) Flush();
    if (!join) begin_ = begin;
    end_ = end;
    any_ = true;
    was_match_ = is_match;
  }
  void Flush() {
    if (any_) emit_(begin_, end_);
    any_ = false;
  }

 private:
  SplitBehavior behavior_;
  std::function<void(size_t, size_t)> emit_;
  bool any_ = false;  // a piece is open
  bool was_match_ = false;
  size_t begin_ = 0;
  size_t end_ = 0;
};

std::string DropChars(std::string_view token, std::string_view what) {
  std::string result;
  for (size_t at = 0; at < token.size();) {
    if (token.substr(at).starts_with(what)) {
      at += what.size();
    } else {
      result.push_back(token[at++]);
    }
  }
  return result;
}

std::string ReplaceAll(std::string_view token, std::string_view what, std::string_view by) {
  std::string result;
  for (size_t at = 0; at < token.size();) {
    if (token.substr(at).starts_with(what)) {
      result += by;
      at += what.size();
    } else {
      result.push_back(token[at++]);
    }
  }
  return result;
}

// "<0x41>" is the byte 0x41.
bool IsByteToken(const std::string& token, char& byte) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return false;
  int value = 0;
  for (int i = 3; i < 5; ++i) {
    const size_t digit = std::string_view("0123456789ABCDEF").find(token[i]);
    if (digit == std::string_view::npos) return false;
    value = value * 16 + static_cast<int>(digit);
  }
  byte = static_cast<char>(value);
  return true;
}

void Strip(std::string& token, const DecoderStep& step) {
  const std::string& what = step.pattern;
  for (size_t i = 0; i < step.start && token.starts_with(what); ++i) token.erase(0, what.size());
  for (size_t i = 0; i < step.stop && token.ends_with(what); ++i) token.resize(token.size() - what.size());
}

std::string Join(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

}  // namespace

std::string NormalizeText(const std::vector<Normalizer>& normalizers, std::string_view text,
                          int64_t& budget) {
  std::string result(text);
  for (const Normalizer& normalizer : normalizers) {
    switch (normalizer.kind) {
      case Normalizer::kNfc:
        result = NormalizeNfc(result);
        break;
      case Normalizer::kPrepend:
        if (!result.empty()) result.insert(0, normalizer.text);
        break;
      case Normalizer::kReplace:
        result = ReplaceMatches(normalizer.pattern, result, normalizer.text, budget);
        break;
    }
  }
  return result;
}

void PieceCutter::Apply(size_t step, std::string_view text, bool at_start) {
  if (text.empty()) return;
  if (step == steps_.size()) {
    sink_(text);
    return;
  }
  const PreTokenizer& pre = steps_[step];
  switch (pre.kind) {
    case PreTokenizer::kSplit:
      Split(step, pre.pattern, pre.behavior, pre.invert, text, at_start);
      break;
    case PreTokenizer::kDigits:
      SplitDigits(step, pre.individual, text, at_start);
      break;
    case PreTokenizer::kByteLevel: {
      std::string spaced;
      if (pre.prefix_space && text[0] != ' ') {
        spaced.reserve(text.size() + 1);
        spaced = " ";
        spaced += text;
        text = spaced;
      }
      if (pre.use_pattern) {
        Split(step, pre.pattern, SplitBehavior::kIsolated, false, text, at_start);
      } else {
        Apply(step + 1, text, at_start);
      }
      break;
    }
    case PreTokenizer::kMetaspace: {
      std::string replaced = ReplaceAll(text, " ", pre.replacement);
      const bool prepend =
          pre.prepend == PreTokenizer::kAlways || (pre.prepend == PreTokenizer::kFirst && at_start);
      if (prepend && !replaced.starts_with(pre.replacement)) replaced.insert(0, pre.replacement);
      if (pre.split) {
        Split(step, pre.pattern, SplitBehavior::kMergedWithNext, false, replaced, at_start);
      } else {
        Apply(step + 1, replaced, at_start);
      }
      break;
    }
  }
}

void PieceCutter::Split(size_t step, const SplitPattern& pattern, SplitBehavior behavior, bool invert,
                        std::string_view text, bool at_start) {
  PieceJoiner joiner(behavior, [&](size_t begin, size_t end) {
    Apply(step + 1, text.substr(begin, end - begin), at_start && begin == 0);
  });
  size_t from = 0;
  for (SplitPattern::Match match; pattern.Find(text, from, match, budget_); from = match.end) {
    if (from < match.begin) joiner.Add(from, match.begin, invert);
    joiner.Add(match.begin, match.end, !invert);
  }
  if (from < text.size()) joiner.Add(from, text.size(), invert);
  joiner.Flush();
}

void PieceCutter::SplitDigits(size_t step, bool individual, std::string_view text, bool at_start) {
  const SplitBehavior behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  PieceJoiner joiner(behavior, [&](size_t begin, size_t end) {
    Apply(step + 1, text.substr(begin, end - begin), at_start && begin == 0);
  });
  size_t from = 0;  // of what is not a digit
  for (size_t at = 0; at < text.size();) {
    const size_t end = at + Utf8Length(text[at]);
    if ((UnicodeProperties(DecodeUtf8(text, at)) & kDigit) != 0) {
      if (from < at) joiner.Add(from, at, false);
      joiner.Add(at, end, true);
      from = end;
    }
    at = end;
  }
  if (from < text.size()) joiner.Add(from, text.size(), false);
  joiner.Flush();
}

std::string DecodeTokens(const std::vector<DecoderStep>& steps, std::vector<std::string> tokens) {
  for (const DecoderStep& step : steps) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      switch (step.kind) {
        case DecoderStep::kByteLevel: {
          std::string bytes;
          if (FromByteAliases(token, bytes)) token = bytes;
          break;
        }
        case DecoderStep::kMetaspace:
          token = i == 0 && step.drop_first ? DropChars(token, step.text) : ReplaceAll(token, step.text, " ");
          break;
        case DecoderStep::kReplace:
          token = ReplaceAll(token, step.pattern, step.text);
          break;
        case DecoderStep::kByteFallback: {
          char byte;
          if (IsByteToken(token, byte)) token = std::string(1, byte);
          break;
        }
        case DecoderStep::kFuse:
          break;
        case DecoderStep::kStrip:
          Strip(token, step);
          break;
      }
    }
    if (step.kind == DecoderStep::kFuse) tokens = {Join(tokens)};
  }
  return Join(tokens);
}

}  // namespace samestep
