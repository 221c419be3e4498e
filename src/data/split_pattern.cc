#include "data/split_pattern.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"
#include "data/unicode.h"

namespace samestep {
namespace {

constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
constexpr size_t kMaxItems = 64;

constexpr uint32_t Bit(uint8_t category) { return 1u << category; }
constexpr uint32_t kLetters =
    Bit(kUppercase) | Bit(kLowercase) | Bit(kTitlecase) | Bit(kModifierLetter) | Bit(kOtherLetter);
constexpr uint32_t kNumbers = Bit(kDecimalNumber) | Bit(kLetterNumber) | Bit(kOtherNumber);
constexpr uint32_t kAllCategories = Bit(kSymbol + 1) - 1;

struct NamedCategory {
  std::string_view name;
  uint32_t categories;
};
constexpr NamedCategory kNamedCategories[] = {
    {"L", kLetters},
    {"Lu", Bit(kUppercase)},
    {"Ll", Bit(kLowercase)},
    {"Lt", Bit(kTitlecase)},
    {"Lm", Bit(kModifierLetter)},
    {"Lo", Bit(kOtherLetter)},
    {"M", Bit(kMark)},
    {"N", kNumbers},
    {"Nd", Bit(kDecimalNumber)},
    {"Nl", Bit(kLetterNumber)},
    {"No", Bit(kOtherNumber)},
    {"P", Bit(kPunctuation)},
    {"S", Bit(kSymbol)},
};

bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Pairs of letters that a single character folds to (sharp s, ligatures).
bool FoldsTogether(char32_t a, char32_t b) {
  a |= 0x20;
  b |= 0x20;
  return (a == 's' && (b == 's' || b == 't')) || (a == 'f' && (b == 'f' || b == 'i' || b == 'l'));
}

}  // namespace

void CharacterClass::AddRange(char32_t first, char32_t last) { ranges_.emplace_back(first, last); }

void CharacterClass::Finish() {
  for (char32_t c = 0; c < 128; ++c) ascii_[c] = Contains(c);
}

bool CharacterClass::Contains(char32_t c) const {
  const uint8_t properties = UnicodeProperties(c);
  bool in = (categories_ >> (properties & kCategoryMask) & 1) != 0;
  in = in || (properties & kWhiteSpace ? white_space_ : not_white_space_);
  for (const auto& [first, last] : ranges_) in = in || (c >= first && c <= last);
  return in != negated_;
}

size_t CharacterClass::Match(std::string_view text, size_t at) const {
  if (at >= text.size()) return 0;
  const uint8_t lead = static_cast<uint8_t>(text[at]);
  if (lead < 128) return ascii_[lead];
  return Contains(DecodeUtf8(text, at)) ? Utf8Length(text[at]) : 0;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<SplitPattern> Parse() {
    if (FindInvalidUtf8(text_) != std::string_view::npos) return Refuse("bytes that are not UTF-8");
    SplitPattern pattern;
    do {
      SplitPattern::Branch branch;
      bool can_be_empty = true;
      while (at_ < text_.size() && text_[at_] != '|') {
        SAMESTEP_ASSIGN_OR_RETURN(SplitPattern::Item item, ParseItem());
        const bool consumes =
            item.kind == SplitPattern::Item::kClass || item.kind == SplitPattern::Item::kGroup;
        can_be_empty = can_be_empty && (!consumes || item.least == 0);
        branch.items.push_back(std::move(item));
        if (branch.items.size() > kMaxItems) return Refuse("a sequence of more than 64 parts");
      }
      if (can_be_empty) return Refuse("an alternative that matches nothing");
      FindFirst(branch);
      pattern.branches_.push_back(std::move(branch));
    } while (Take('|'));
    return pattern;
  }

 private:
  using Item = SplitPattern::Item;

  Status Refuse(std::string_view what) const {
    return UsageError("the regular expression {} has, at byte {}, {}, which is not supported", text_, at_,
                      what);
  }
  bool Take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeAll(std::string_view s) {
    if (!text_.substr(at_).starts_with(s)) return false;
    at_ += s.size();
    return true;
  }

  Result<Item> ParseItem() {
    Item item;
    if (TakeAll("(?!") || TakeAll("(?=")) {
      item.kind = text_[at_ - 1] == '!' ? Item::kNotAhead : Item::kAhead;
      SAMESTEP_ASSIGN_OR_RETURN(item.characters, ParseCharacter(false));
      if (!Take(')')) return Refuse("a look at more than one character");
      return item;
    }
    if (text_[at_] == '(') {
      SAMESTEP_RETURN_IF_ERROR(ParseGroup(item));
    } else {
      SAMESTEP_ASSIGN_OR_RETURN(item.characters, ParseCharacter(false));
    }
    SAMESTEP_RETURN_IF_ERROR(ParseQuantifier(item));
    return item;
  }

  Status ParseGroup(Item& item) {
    item.kind = Item::kGroup;
    const bool fold = text_.substr(at_).starts_with("(?i:");
    if (!TakeAll("(?i:") && !TakeAll("(?:")) return Refuse("a group that is not (?:...) or (?i:...)");
    do {
      std::vector<CharacterClass> sequence;
      char32_t previous = 0;
      while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
        const char32_t c = DecodeUtf8(text_, at_);
        if (fold && previous != 0 && FoldsTogether(previous, c))
          return Refuse("letters that fold to one character");
        previous = c;
        SAMESTEP_ASSIGN_OR_RETURN(CharacterClass characters, ParseCharacter(fold));
        if (at_ < text_.size() && std::string_view("?*+{").find(text_[at_]) != std::string_view::npos) {
          return Refuse("a repetition within a group");
        }
        sequence.push_back(std::move(characters));
      }
      if (sequence.empty()) return Refuse("an empty alternative");
      item.alternatives.push_back(std::move(sequence));
    } while (Take('|'));
    if (!Take(')')) return Refuse("a group without its end");
    return {};
  }

  Status ParseQuantifier(Item& item) {
    const bool group = item.kind == Item::kGroup;
    if (Take('?')) {
      item.least = 0;
    } else if (!group && Take('*')) {
      item.least = 0;
      item.most = kUnbounded;
    } else if (!group && Take('+')) {
      item.most = kUnbounded;
    } else if (!group && at_ < text_.size() && text_[at_] == '{') {
      SAMESTEP_RETURN_IF_ERROR(ParseBounds(item));
      if (at_ < text_.size() && text_[at_] == '+') return Refuse("a repetition of a repetition");
    } else {
      if (at_ < text_.size() && std::string_view("*+{").find(text_[at_]) != std::string_view::npos) {
        return Refuse("a repetition of a group");
      }
      return {};
    }
    if (at_ < text_.size() && text_[at_] == '?') return Refuse("a repetition that is not greedy");
    if (!group && Take('+')) item.possessive = true;
    if (at_ < text_.size() && std::string_view("?*+{").find(text_[at_]) != std::string_view::npos) {
      return Refuse("a repetition of a repetition");
    }
    return {};
  }

  Status ParseBounds(Item& item) {
    ++at_;
    const std::optional<size_t> least = ParseNumber();
    if (!least) return Refuse("a { that does not start a repetition such as {1,3}");
    item.least = item.most = *least;
    if (Take(',')) {
      const std::optional<size_t> most = ParseNumber();
      item.most = most.value_or(kUnbounded);
    }
    if (!Take('}') || item.most < item.least || item.most == 0)
      return Refuse("a repetition that is not {n}, {n,} or {n,m}");
    return {};
  }

  std::optional<size_t> ParseNumber() {
    size_t value = 0;
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ - start < 6) {
      value = value * 10 + static_cast<size_t>(text_[at_++] - '0');
    }
    if (at_ == start) return std::nullopt;
    return value;
  }

  // One character, escape or class, as a class.
  Result<CharacterClass> ParseCharacter(bool fold) {
    CharacterClass characters;
    if (at_ >= text_.size()) return Refuse("an end where a character is due");
    if (Take('[')) {
      SAMESTEP_RETURN_IF_ERROR(ParseSet(fold, characters));
    } else if (text_[at_] == '\\') {
      SAMESTEP_RETURN_IF_ERROR(ParseEscape(fold, characters).status());
    } else {
      if (std::string_view(".^$()?*+{|").find(text_[at_]) != std::string_view::npos) {
        return Refuse(fmt::format("'{}'", text_[at_]));
      }
      AddCharacter(TakeCharacter(), fold, characters);
    }
    characters.Finish();
    return characters;
  }

  char32_t TakeCharacter() {
    const char32_t c = DecodeUtf8(text_, at_);
    at_ += Utf8Length(text_[at_]);
    return c;
  }

  void AddCharacter(char32_t c, bool fold, CharacterClass& characters) {
    characters.AddRange(c, c);
    if (!fold || !IsAsciiLetter(c)) return;
    characters.AddRange(c ^ 0x20, c ^ 0x20);
    if ((c | 0x20) == 's') characters.AddRange(0x17F, 0x17F);    // long s
    if ((c | 0x20) == 'k') characters.AddRange(0x212A, 0x212A);  // kelvin sign
  }

  // After a backslash. The character, if it stands for a single one, so that it can start a range.
  Result<std::optional<char32_t>> ParseEscape(bool fold, CharacterClass& characters) {
    const size_t start = at_++;
    const auto single = [&](char32_t c) {
      if (!in_set_) AddCharacter(c, fold, characters);
      return Result<std::optional<char32_t>>(std::optional<char32_t>(c));
    };
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    switch (c) {
      case 'r':
        return single('\r');
      case 'n':
        return single('\n');
      case 't':
        return single('\t');
      case 's':
        characters.AddWhiteSpace();
        return std::optional<char32_t>();
      case 'S':
        characters.AddNotWhiteSpace();
        return std::optional<char32_t>();
      case 'd':
        characters.AddCategories(Bit(kDecimalNumber));
        return std::optional<char32_t>();
      case 'p':
      case 'P':
        for (const NamedCategory& named : kNamedCategories) {
          if (TakeAll(fmt::format("{{{}}}", named.name))) {
            characters.AddCategories(c == 'p' ? named.categories : kAllCategories & ~named.categories);
            return std::optional<char32_t>();
          }
        }
        break;
      default:
        if (static_cast<uint8_t>(c) > ' ' && static_cast<uint8_t>(c) < 0x7F &&
            !IsAsciiLetter(static_cast<char32_t>(c)) && !(c >= '0' && c <= '9')) {
          return single(static_cast<char32_t>(c));
        }
    }
    at_ = start;
    return Refuse(
        fmt::format("the escape {}",
                    text_.substr(at_, text_.find('}', at_) == std::string_view::npos || (c != 'p' && c != 'P')
                                          ? 2
                                          : text_.find('}', at_) + 1 - at_)));
  }

  Status ParseSet(bool fold, CharacterClass& characters) {
    if (fold) return Refuse("a class in a group without case");
    in_set_ = true;
    const bool negated = Take('^');
    if (at_ < text_.size() && text_[at_] == ']') return Refuse("an empty class");
    while (at_ < text_.size() && text_[at_] != ']') {
      if (text_[at_] == '[') return Refuse("a class within a class");
      if (text_.substr(at_).starts_with("&&")) return Refuse("an intersection of classes");
      std::optional<char32_t> first;
      if (text_[at_] == '\\') {
        SAMESTEP_ASSIGN_OR_RETURN(first, ParseEscape(false, characters));
      } else {
        first = TakeCharacter();
      }
      const bool range = at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']';
      if (range && !first) return Refuse("a range from a class");
      if (!range) {
        if (first) characters.AddRange(*first, *first);
        continue;
      }
      ++at_;
      std::optional<char32_t> last;
      if (text_[at_] == '\\') {
        SAMESTEP_ASSIGN_OR_RETURN(last, ParseEscape(false, characters));
      } else {
        last = TakeCharacter();
      }
      if (!last || *last < *first) return Refuse("a range that does not rise");
      characters.AddRange(*first, *last);
    }
    in_set_ = false;
    if (!Take(']')) return Refuse("a class without its end");
    if (negated) characters.Negate();
    return {};
  }

  static void FindFirst(SplitPattern::Branch& branch) {
    for (const Item& item : branch.items) {
      if (item.kind == Item::kAhead || item.kind == Item::kNotAhead) continue;
      for (uint8_t c = 0; c < 128; ++c) {
        bool in = item.kind == Item::kClass && item.characters.HasAscii(c);
        for (const auto& sequence : item.alternatives) in = in || sequence[0].HasAscii(c);
        branch.first_ascii[c] = branch.first_ascii[c] || in;
      }
      if (item.least > 0) return;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool in_set_ = false;
};

// Backtracking over the items of one branch; each tries its longest repetition first.
class PatternMatcher {
 public:
  using Item = SplitPattern::Item;
  PatternMatcher(std::string_view text, int64_t& budget) : text_(text), budget_(budget) {}

  // The end of the match of items[i ...] at `at`, or kUnbounded.
  size_t Match(const std::vector<Item>& items, size_t i, size_t at) const {
    if (i == items.size()) return at;
    const Item& item = items[i];
    switch (item.kind) {
      case Item::kAhead:
        return item.characters.Match(text_, at) != 0 ? Match(items, i + 1, at) : kUnbounded;
      case Item::kNotAhead:
        return item.characters.Match(text_, at) == 0 ? Match(items, i + 1, at) : kUnbounded;
      case Item::kGroup:
        return MatchGroup(items, i, at);
      case Item::kClass:
        return MatchClass(items, i, at);
    }
    return kUnbounded;
  }

 private:
  size_t MatchClass(const std::vector<Item>& items, size_t i, size_t at) const {
    const Item& item = items[i];
    size_t end = at;
    size_t count = 0;
    for (; count < item.most; ++count) {
      const size_t length = item.characters.Match(text_, end);
      if (length == 0) break;
      end += length;
    }
    budget_ -= static_cast<int64_t>(count) + 1;
    for (;;) {
      if (count < item.least || budget_ < 0) return kUnbounded;
      if (const size_t match = Match(items, i + 1, end); match != kUnbounded) return match;
      if (count == 0 || item.possessive) return kUnbounded;
      --count;
      --budget_;
      do --end;
      while (IsUtf8Continuation(text_[end]));
    }
  }

  size_t MatchGroup(const std::vector<Item>& items, size_t i, size_t at) const {
    for (const std::vector<CharacterClass>& sequence : items[i].alternatives) {
      size_t end = at;
      bool matches = true;
      for (const CharacterClass& characters : sequence) {
        const size_t length = characters.Match(text_, end);
        matches = length != 0;
        if (!matches) break;
        end += length;
      }
      if (!matches) continue;
      if (const size_t match = Match(items, i + 1, end); match != kUnbounded) return match;
    }
    return items[i].least == 0 ? Match(items, i + 1, at) : kUnbounded;
  }

  std::string_view text_;
  int64_t& budget_;
};

Result<SplitPattern> SplitPattern::Compile(std::string_view pattern) {
  return PatternParser(pattern).Parse();
}

SplitPattern SplitPattern::Literal(std::string_view text) {
  SAMESTEP_CHECK(!text.empty());
  Branch branch;
  for (size_t at = 0; at < text.size(); at += Utf8Length(text[at])) {
    Item item;
    const char32_t c = DecodeUtf8(text, at);
    item.characters.AddRange(c, c);
    item.characters.Finish();
    branch.items.push_back(std::move(item));
  }
  if (const uint8_t lead = static_cast<uint8_t>(text[0]); lead < 128) branch.first_ascii[lead] = true;
  SplitPattern pattern;
  pattern.branches_.push_back(std::move(branch));
  return pattern;
}

bool SplitPattern::Find(std::string_view text, size_t from, Match& match, int64_t& budget) const {
  const PatternMatcher matcher(text, budget);
  for (size_t at = from; at < text.size() && budget >= 0; at += Utf8Length(text[at])) {
    const uint8_t lead = static_cast<uint8_t>(text[at]);
    for (const Branch& branch : branches_) {
      if (lead < 128 && !branch.first_ascii[lead]) continue;
      const size_t end = matcher.Match(branch.items, 0, at);
      if (end == kUnbounded) continue;
      match = {at, end};
      return true;
    }
  }
  return false;
}

}  // namespace samestep
