// split_pattern.h: the regular expressions with which tokenizers cut text, matched as Oniguruma matches them.
//
//   SAMESTEP_ASSIGN_OR_RETURN(SplitPattern pattern, SplitPattern::Compile(SplitPattern::kGpt2));
//   int64_t budget = SplitPattern::Budget(text.size());
//   for (size_t from = 0; pattern.Find(text, from, match, budget); from = match.end) ...
//   if (budget < 0) ...                                        // a pattern that takes too many steps
//
// What these expressions are made of, and no more: alternatives of sequences of characters, classes
// ([...], \p{L}, \s, \r ...), groups without captures ((?:...), (?i:...)) and looks ahead at one character
// ((?!\S), (?=...)), with the greedy ?, *, +, {n,m} and the possessive ?+, *+, ++ after a character or class,
// and ? after a group. Anything else is refused by name, never approximated.
//
// Determinism: a function of pattern and text; properties come from fixed tables (unicode.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace samestep {

// A set of code points.
class CharacterClass {
 public:
  void AddRange(char32_t first, char32_t last);
  void AddCategories(uint32_t categories) { categories_ |= categories; }  // bit i: UnicodeProperty i
  void AddWhiteSpace() { white_space_ = true; }
  void AddNotWhiteSpace() { not_white_space_ = true; }
  void Negate() { negated_ = !negated_; }
  void Finish();  // after the last change

  // Bytes of the character at `at`, if it is in the class, else 0.
  size_t Match(std::string_view text, size_t at) const;
  bool HasAscii(uint8_t byte) const { return ascii_[byte]; }

 private:
  bool Contains(char32_t c) const;
  std::vector<std::pair<char32_t, char32_t>> ranges_;
  uint32_t categories_ = 0;
  bool white_space_ = false;
  bool not_white_space_ = false;
  bool negated_ = false;
  std::array<bool, 128> ascii_{};
};

class SplitPattern {
 public:
  // What GPT-2 and ByteLevel split by.
  static constexpr const char* kGpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

  static Result<SplitPattern> Compile(std::string_view pattern);  // kUsage, with what is not supported
  static SplitPattern Literal(std::string_view text);             // not empty

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };
  // The first match at or after `from`, in valid UTF-8. False: there is none, or the budget is spent.
  bool Find(std::string_view text, size_t from, Match& match, int64_t& budget) const;

  // Steps that all calls of Find for a text may take together. Patterns in use need a few for each byte;
  // one that goes back and forth quadratically would not end on a large document.
  static int64_t Budget(size_t bytes) { return 1000000 + 256 * static_cast<int64_t>(bytes); }

 private:
  friend class PatternParser;
  friend class PatternMatcher;
  struct Item {
    enum Kind { kClass, kGroup, kAhead, kNotAhead } kind = kClass;
    CharacterClass characters;
    size_t least = 1;
    size_t most = 1;
    bool possessive = false;
    std::vector<std::vector<CharacterClass>> alternatives;  // of a group
  };
  struct Branch {
    std::vector<Item> items;
    std::array<bool, 128> first_ascii{};  // ASCII that a match can start with
  };
  std::vector<Branch> branches_;
};

}  // namespace samestep
