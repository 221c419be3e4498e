#include "data/split_pattern.h"

#include <gtest/gtest.h>

namespace samestep {
namespace {

// All matches, joined by '|'; what lies between is left out.
std::string Matches(const std::string& pattern, const std::string& text) {
  const Result<SplitPattern> compiled = SplitPattern::Compile(pattern);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  std::string result;
  int64_t budget = SplitPattern::Budget(text.size());
  SplitPattern::Match match;
  for (size_t from = 0; compiled->Find(text, from, match, budget); from = match.end) {
    result += text.substr(match.begin, match.end - match.begin) + "|";
  }
  return result;
}

TEST(SplitPattern, Gpt2) {
  EXPECT_EQ(Matches(SplitPattern::kGpt2, "He'll say  it's 12 o'clock!?\n\n  Yes"),
            "He|'ll| say| | it|'s| 12| o|'|clock|!?|\n\n | Yes|");
}

TEST(SplitPattern, BacktracksFromTheLongest) {
  EXPECT_EQ(Matches(R"(\s*[\r\n]+)", "a  \n \n  b"), "  \n \n|");
  EXPECT_EQ(Matches(R"(\p{L}*b)", "aabab c"), "aabab|");
  EXPECT_EQ(Matches(R"(\p{L}*+b)", "aabab c"), "");
  EXPECT_EQ(Matches(R"(a{2,3}a)", "aaa aaaaa"), "aaa|aaaa|");
  EXPECT_EQ(Matches(R"(\s+(?!\S))", "a   b  "), "  |  |");
  EXPECT_EQ(Matches(R"(a(?=b))", "abaab"), "a|a|");
  EXPECT_EQ(Matches(R"(x(?:a|ab)?c)", "xabc xac xc xb"), "xabc|xac|xc|");
}

TEST(SplitPattern, FirstAlternativeWins) {
  EXPECT_EQ(Matches("a|ab", "ab"), "a|");
  EXPECT_EQ(Matches("ab|a", "ab"), "ab|");
}

TEST(SplitPattern, FoldsCaseAsOniguruma) {
  EXPECT_EQ(Matches("(?i:'s|'re)", "'s'S'RE'rE'\u017f'x"), "'s|'S|'RE|'rE|'\u017f|");
}

TEST(SplitPattern, Classes) {
  EXPECT_EQ(Matches(R"([a-c\-\]x]+)", "ab-]xd"), "ab-]x|");
  EXPECT_EQ(Matches(R"([^\s\p{L}]+)", "a1 !b"), "1|!|");
  EXPECT_EQ(Matches("[\u4e00-\u9fa5]+", "a\u4e2d\u6587b"), "\u4e2d\u6587|");
  EXPECT_EQ(Matches(R"(\P{L}+)", "a12b"), "12|");
  EXPECT_EQ(Matches(R"([\S]+)", "a b"), "a|b|");
  EXPECT_EQ(Matches(R"([+-]+)", "a+-b"), "+-|");
}

TEST(SplitPattern, WhatIsNotSupportedIsRefused) {
  for (const char* pattern :
       {"",       "|a",  "a|",     "a*",          "(a)",     "(?<n>a)",    "(?<=a)b",       "(?!ab)c",
        ".",      "^a",  "a$",     R"(\b)",       R"(\w)",   R"(\p{Han})", R"(\p{Greek}a)", R"(\x41)",
        R"(\1)",  "a**", "a+?",    "a*?b",        "a??b",    "a{1,2}+",    "a{2",           "a{,2}",
        "a{3,1}", "{1}", "(?:a)+", "(?:a*)b",     "(?:a|)b", "(?i:ss)",    "(?i:first)",    "(?i:[a])",
        "[a",     "[]",  "[^]",    "[[:alpha:]]", "[a&&b]",  "[z-a]",      R"([\s-a])",     "(?:a",
        "(?i)a",  "a)",  "*a",     "\\",          "\xff"}) {
    const Result<SplitPattern> compiled = SplitPattern::Compile(pattern);
    ASSERT_FALSE(compiled.ok()) << pattern;
    EXPECT_NE(compiled.status().message().find("not supported"), std::string::npos);
  }
}

}  // namespace
}  // namespace samestep
