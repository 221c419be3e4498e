#include "data/unicode.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "data/unicode_tables.h"

namespace samestep {
namespace {

constexpr char32_t kCodePoints = 0x110000;

// Hangul syllables compose by arithmetic (chapter 3.12 of the Unicode standard).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

const uint8_t* PropertyTable() {
  static const uint8_t* table = [] {
    auto* t = new uint8_t[kCodePoints];
    for (int i = 0; i < kPropertyRunCount; ++i) {
      const char32_t end = i + 1 < kPropertyRunCount ? kPropertyRuns[i + 1].first : kCodePoints;
      std::fill(t + kPropertyRuns[i].first, t + end, kPropertyRuns[i].property);
    }
    return t;
  }();
  return table;
}

uint8_t CombiningClassOf(char32_t c) {
  if (c < 0x300) return 0;
  const CombiningClass* end = kCombiningClasses + kCombiningClassCount;
  const CombiningClass* at = std::lower_bound(
      kCombiningClasses, end, c, [](const CombiningClass& a, char32_t b) { return a.code_point < b; });
  return at != end && at->code_point == c ? at->value : 0;
}

void Decompose(char32_t c, std::u32string& to) {
  if (c >= kSyllables && c < kSyllables + kSyllableCount) {
    const char32_t s = c - kSyllables;
    to.push_back(kLeads + s / (kVowelCount * kTrailCount));
    to.push_back(kVowels + s % (kVowelCount * kTrailCount) / kTrailCount);
    if (s % kTrailCount != 0) to.push_back(kTrails + s % kTrailCount);
    return;
  }
  const Decomposition* end = kDecompositions + kDecompositionCount;
  const Decomposition* at = std::lower_bound(
      kDecompositions, end, c, [](const Decomposition& a, char32_t b) { return a.code_point < b; });
  if (at == end || at->code_point != c) {
    to.push_back(c);
    return;
  }
  for (int i = 0; i < at->length; ++i) to.push_back(kDecomposed[at->first + i]);
}

// 0: the two do not compose.
char32_t Compose(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount) {
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  }
  if (first >= kSyllables && first < kSyllables + kSyllableCount && (first - kSyllables) % kTrailCount == 0 &&
      second > kTrails && second < kTrails + kTrailCount) {
    return first + (second - kTrails);
  }
  const Composition* end = kCompositions + kCompositionCount;
  const Composition* at = std::lower_bound(
      kCompositions, end, Composition{first, second, 0}, [](const Composition& a, const Composition& b) {
        return a.first != b.first ? a.first < b.first : a.second < b.second;
      });
  return at != end && at->first == first && at->second == second ? at->composed : 0;
}

// Sorts each run of marks by its class, keeping the order of equals.
void OrderMarks(std::u32string& text) {
  struct Mark {
    int value;
    size_t at;
    char32_t c;
  };
  std::vector<Mark> marks;
  for (size_t i = 0; i < text.size(); ++i) {
    marks.clear();
    for (size_t end = i; end < text.size(); ++end) {
      const int value = CombiningClassOf(text[end]);
      if (value == 0) break;
      marks.push_back({value, end, text[end]});
    }
    std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
      return a.value != b.value ? a.value < b.value : a.at < b.at;
    });
    for (const Mark& mark : marks) text[i++] = mark.c;
  }
}

void ComposeInPlace(std::u32string& text) {
  size_t starter = text.size();  // none yet
  size_t out = 0;
  int last_class = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    const int c_class = CombiningClassOf(c);
    const bool blocked = starter + 1 != out && last_class >= c_class;  // something between has the same class
    if (starter < out && !blocked) {
      if (const char32_t composed = Compose(text[starter], c)) {
        text[starter] = composed;
        continue;
      }
    }
    if (c_class == 0) starter = out;
    last_class = c_class;
    text[out++] = c;
  }
  text.resize(out);
}

}  // namespace

uint8_t UnicodeProperties(char32_t code_point) {
  static const uint8_t* table = PropertyTable();
  return table[code_point];
}

size_t FindInvalidUtf8(std::string_view text) {
  const size_t size = text.size();
  for (size_t i = 0; i < size;) {
    const uint8_t lead = static_cast<uint8_t>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
    size_t length;
    uint8_t low = 0x80, high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      length = 3;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      length = 4;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return i;
    }
    if (size - i < length) return i;
    const uint8_t second = static_cast<uint8_t>(text[i + 1]);
    if (second < low || second > high) return i;
    for (size_t j = 2; j < length; ++j) {
      if (!IsUtf8Continuation(text[i + j])) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

char32_t DecodeUtf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[at + i])); };
  switch (Utf8Length(text[at])) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

void AppendUtf8(char32_t c, std::string& text) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    SAMESTEP_CHECK(c < kCodePoints);
    add(0xF0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

std::string NormalizeNfc(std::string_view text) {
  const auto is_ascii = [&](size_t i) { return static_cast<uint8_t>(text[i]) < 0x80; };
  std::string result;
  result.reserve(text.size());
  std::u32string piece;
  for (size_t i = 0; i < text.size();) {
    // ASCII stays as it is, but its last character may compose with what follows.
    size_t end = i;
    while (end < text.size() && is_ascii(end)) ++end;
    if (end == text.size()) {
      result.append(text, i);
      break;
    }
    const size_t start = end > i ? end - 1 : end;
    result.append(text, i, start - i);
    piece.clear();
    if (start < end) piece.push_back(static_cast<char32_t>(text[start]));
    for (i = end; i < text.size() && !is_ascii(i); i += Utf8Length(text[i]))
      Decompose(DecodeUtf8(text, i), piece);
    OrderMarks(piece);
    ComposeInPlace(piece);
    for (const char32_t c : piece) AppendUtf8(c, result);
  }
  return result;
}

}  // namespace samestep
