// unicode.h: UTF-8, the properties of code points, and the normal form NFC.
//
//   if (size_t bad = FindInvalidUtf8(text); bad != std::string_view::npos) ...
//   UnicodeProperties(U'a') & kCategoryMask      // kLowercase
//
// Determinism: tables of a fixed version, never those of the system (unicode_tables.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace samestep {

// General categories as far as splitting needs them, and two flags.
enum UnicodeProperty : uint8_t {
  kOther = 0,
  kUppercase = 1,       // Lu
  kLowercase = 2,       // Ll
  kTitlecase = 3,       // Lt
  kModifierLetter = 4,  // Lm
  kOtherLetter = 5,     // Lo
  kMark = 6,            // M
  kDecimalNumber = 7,   // Nd
  kLetterNumber = 8,    // Nl
  kOtherNumber = 9,     // No
  kPunctuation = 10,    // P
  kSymbol = 11,         // S
  kCategoryMask = 15,
  kWhiteSpace = 16,
  kDigit = 32,  // what the pre-tokenizer Digits takes for a number
};
uint8_t UnicodeProperties(char32_t code_point);

// The first byte that is not part of a valid sequence, or npos.
size_t FindInvalidUtf8(std::string_view text);

// Bytes of the code point that starts with `lead`, in valid text.
inline size_t Utf8Length(char lead) {
  const uint8_t byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
inline bool IsUtf8Continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

// The code point at `at` in valid text.
char32_t DecodeUtf8(std::string_view text, size_t at);
void AppendUtf8(char32_t code_point, std::string& text);

// Canonical composition of valid text, as the normalizer NFC of Hugging Face's tokenizers has it.
std::string NormalizeNfc(std::string_view text);

}  // namespace samestep
