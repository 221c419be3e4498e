#include "numerics/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <bit>
#include <cmath>
#include <vector>

namespace samestep {
namespace {

using ::testing::ElementsAre;

TEST(Philox, KnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, AddressesSeedBlockStepAndStream) {
  const auto block = RandomBlock(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x13198a2e, 0x03707344);
  EXPECT_THAT(block, ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
  for (uint64_t word = 0; word < 4; ++word) {
    EXPECT_EQ(RandomWord(0x299f31d0a4093822, uint64_t{0x05a308d3243f6a88} * 4 + word, 1, 2),
              RandomBlock(0x299f31d0a4093822, 0x05a308d3243f6a88, 1, 2)[word]);
  }
}

TEST(Philox, StreamIsTheHashOfPurposeAndName) {
  const std::string text = "init:model.norm.weight";
  EXPECT_EQ(StreamId("init", "model.norm.weight"), XXH3_64bits(text.data(), text.size()) & 0xFFFFFFFF);
  EXPECT_NE(StreamId("init", "a"), StreamId("dropout", "a"));
}

TEST(Philox, InitialWeightsDoNotDependOnHowTheTensorIsCut) {
  std::vector<float> whole(1000), parts(1000);
  InitNormal(whole.data(), 0, 1000, 7, 9, 0.02f);
  for (int64_t first = 0; first < 1000; first += 125)
    InitNormal(parts.data() + first, first, 125, 7, 9, 0.02f);
  EXPECT_EQ(whole, parts);
  double sum = 0, squares = 0;
  for (float x : whole) sum += x, squares += static_cast<double>(x) * x;
  EXPECT_NEAR(sum / 1000, 0, 0.003);
  EXPECT_NEAR(std::sqrt(squares / 1000), 0.02, 0.002);
  // By the page, from the words of the first three blocks.
  int64_t z = -6 * (int64_t{1} << 24);
  for (uint64_t element = 0; element < 12; ++element) z += RandomWord(7, element, 0, 9) >> 8;
  EXPECT_EQ(whole[0], static_cast<float>(static_cast<double>(0.02f) * static_cast<double>(z) / (1 << 24)));
}

}  // namespace
}  // namespace samestep
