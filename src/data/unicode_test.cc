#include "data/unicode.h"

#include <gtest/gtest.h>

#include "data/unicode_tables.h"

namespace samestep {
namespace {

TEST(Unicode, TablesAreSorted) {
  for (int i = 1; i < kPropertyRunCount; ++i) ASSERT_LT(kPropertyRuns[i - 1].first, kPropertyRuns[i].first);
  for (int i = 1; i < kDecompositionCount; ++i) {
    ASSERT_LT(kDecompositions[i - 1].code_point, kDecompositions[i].code_point);
  }
  for (int i = 1; i < kCombiningClassCount; ++i) {
    ASSERT_LT(kCombiningClasses[i - 1].code_point, kCombiningClasses[i].code_point);
  }
  for (int i = 1; i < kCompositionCount; ++i) {
    ASSERT_LT(std::pair(kCompositions[i - 1].first, kCompositions[i - 1].second),
              std::pair(kCompositions[i].first, kCompositions[i].second));
  }
}

TEST(Unicode, Properties) {
  EXPECT_EQ(UnicodeProperties(U'a'), kLowercase);
  EXPECT_EQ(UnicodeProperties(U'A'), kUppercase);
  EXPECT_EQ(UnicodeProperties(U'7'), kDecimalNumber | kDigit);
  EXPECT_EQ(UnicodeProperties(U'\u00bd'), kOtherNumber | kDigit);
  EXPECT_EQ(UnicodeProperties(U'\u2167'), kLetterNumber | kDigit);
  EXPECT_EQ(UnicodeProperties(U'\u00a0'), kWhiteSpace);
  EXPECT_EQ(UnicodeProperties(U'\u200b'), kOther);  // zero width space is none
  EXPECT_EQ(UnicodeProperties(U'\u4e2d'), kOtherLetter);
  EXPECT_EQ(UnicodeProperties(U'\u0301'), kMark);
  EXPECT_EQ(UnicodeProperties(U'\u01c5'), kTitlecase);
  EXPECT_EQ(UnicodeProperties(U'\u02b0'), kModifierLetter);
  EXPECT_EQ(UnicodeProperties(U'!'), kPunctuation);
  EXPECT_EQ(UnicodeProperties(U'$'), kSymbol);
  EXPECT_EQ(UnicodeProperties(0x10FFFF), kOther);
}

TEST(Unicode, Utf8RoundTrip) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, text);
    ASSERT_EQ(text.size(), Utf8Length(text[0]));
    ASSERT_EQ(DecodeUtf8(text, 0), c);
    ASSERT_EQ(FindInvalidUtf8(text), std::string_view::npos);
  }
}

TEST(Unicode, InvalidUtf8IsFound) {
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe2\x82",
        "\xe2(\xa1", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf0\x9f\x98", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(FindInvalidUtf8(std::string("a\u00e9") + bad + "b"), 3u);
  }
  EXPECT_EQ(FindInvalidUtf8(std::string_view("a\0b", 3)), std::string_view::npos);
}

TEST(Unicode, Nfc) {
  EXPECT_EQ(NormalizeNfc("plain"), "plain");
  EXPECT_EQ(NormalizeNfc("cafe\u0301 x"), "caf\u00e9 x");
  EXPECT_EQ(NormalizeNfc("\u212b"), "\u00c5");                // angstrom sign
  EXPECT_EQ(NormalizeNfc("q\u0307\u0323"), "q\u0323\u0307");  // marks in the order of their classes
  EXPECT_EQ(NormalizeNfc("\u1e0b\u0323"), "\u1e0d\u0307");    // taken apart and put together again
  EXPECT_EQ(NormalizeNfc("\u1112\u1161\u11ab"), "\ud55c");    // Hangul
  EXPECT_EQ(NormalizeNfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093c");  // does not compose again
  EXPECT_EQ(NormalizeNfc("\u0301a"), "\u0301a");
  EXPECT_EQ(NormalizeNfc(""), "");
}

}  // namespace
}  // namespace samestep
