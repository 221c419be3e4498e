#include "recipe/stray_text.h"

#include <gtest/gtest.h>

namespace samestep {
namespace {

TEST(StrayTextTest, FineInStringsAndComments) {
  for (const char* fine : {
           "",
           "# \xC3\xA9",
           "a = \"\xC3\xA9\" # \xC3\xA9\nb = '\xC3\xA9'",
           R"("\"é")",
           "\"\"\"\n\xC3\xA9\"\xC3\xA9\"\"\"\"\"",
           "'''\n'\xC3\xA9'''",
           R"('\' # é)",
           R"("\)",
           "'''",
           "'",
       })
    EXPECT_FALSE(StrayNonAscii(fine)) << fine;
}

TEST(StrayTextTest, FoundElsewhere) {
  EXPECT_EQ(StrayNonAscii("\xC3\xA9"), 0u);
  EXPECT_EQ(StrayNonAscii("\"a\"\xC3\xA9"), 3u);
  EXPECT_EQ(StrayNonAscii(R"('\'é)"), 3u);
  EXPECT_EQ(StrayNonAscii("\"\"\"a\"\"\"\"\"\xC3\xA9"), 9u);
  EXPECT_EQ(StrayNonAscii("#\n\xC3\xA9"), 2u);
  EXPECT_EQ(StrayNonAscii("\"open\n\xC3\xA9"), 6u);
}

}  // namespace
}  // namespace samestep
