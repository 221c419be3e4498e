#include <gtest/gtest.h>

#include "data/tokenizer.h"

namespace samestep {
namespace {

TEST(ByteTokenizer, IdsAreBytes) {
  const auto tokenizer = OpenTokenizer("bytes").value();
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->eod(), 256);
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const std::vector<int32_t> ids = tokenizer->Encode(all).value();
  ASSERT_EQ(ids.size(), 256u);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[i], i);
  EXPECT_EQ(tokenizer->Decode(ids).value(), all);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{'a', 256, 'b'}).value(), "ab");
  EXPECT_FALSE(tokenizer->Decode(std::vector<int32_t>{257}).ok());
  EXPECT_FALSE(tokenizer->Decode(std::vector<int32_t>{-1}).ok());
}

TEST(ByteTokenizer, NoSuchTokenizer) {
  EXPECT_FALSE(OpenTokenizer("byts").ok());
  EXPECT_EQ(OpenTokenizer("bytes", {.eod = "x"}).status().code(), StatusCode::kUsage);
}

}  // namespace
}  // namespace samestep
