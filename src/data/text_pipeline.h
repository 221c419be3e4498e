// text_pipeline.h: the parts of a tokenizer.json that turn text into pieces, and tokens back into text.
//
//   NormalizeText(pipeline.normalizers, text)
//   PieceCutter cutter(pipeline.pre_tokenizers, [&](std::string_view piece) { ... });
//   cutter.Cut(text, /*at_start=*/true);
//
// Determinism: a function of the steps and the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "data/split_pattern.h"

namespace samestep {

struct Normalizer {
  enum Kind { kNfc, kPrepend, kReplace } kind = kNfc;
  SplitPattern pattern;  // kReplace
  std::string text;      // kPrepend, kReplace
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct PreTokenizer {
  enum Kind { kSplit, kDigits, kByteLevel, kMetaspace } kind = kSplit;
  SplitPattern pattern;  // kSplit; kByteLevel if use_pattern
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;                                        // kSplit: cut by what does not match
  bool individual = false;                                    // kDigits
  bool use_pattern = false;                                   // kByteLevel
  bool prefix_space = false;                                  // kByteLevel
  enum Prepend { kNever, kFirst, kAlways } prepend = kNever;  // kMetaspace
  bool split = true;                                          // kMetaspace
  std::string replacement;                                    // kMetaspace
};

struct DecoderStep {
  enum Kind { kByteLevel, kMetaspace, kReplace, kByteFallback, kFuse, kStrip } kind = kByteLevel;
  std::string pattern;  // kReplace, kStrip
  std::string text;     // kReplace; kMetaspace: the replacement
  size_t start = 0;     // kStrip
  size_t stop = 0;
  bool drop_first = false;  // kMetaspace
};

// False in `budget` (below 0): a pattern took too many steps.
std::string NormalizeText(const std::vector<Normalizer>& normalizers, std::string_view text, int64_t& budget);

// Applies the pre-tokenizers one after the other, without keeping all pieces at once.
class PieceCutter {
 public:
  using Sink = std::function<void(std::string_view piece)>;
  PieceCutter(const std::vector<PreTokenizer>& steps, Sink sink, int64_t& budget)
      : steps_(steps), sink_(std::move(sink)), budget_(budget) {}

  // `at_start`: the text stands at the very start of the document.
  void Cut(std::string_view text, bool at_start) { Apply(0, text, at_start); }

 private:
  void Apply(size_t step, std::string_view text, bool at_start);
  void Split(size_t step, const SplitPattern& pattern, SplitBehavior behavior, bool invert,
             std::string_view text, bool at_start);
  void SplitDigits(size_t step, bool individual, std::string_view text, bool at_start);
  const std::vector<PreTokenizer>& steps_;
  Sink sink_;
  int64_t& budget_;
};

// The bytes that a sequence of tokens stands for.
std::string DecodeTokens(const std::vector<DecoderStep>& steps, std::vector<std::string> tokens);

}  // namespace samestep
