#include <gtest/gtest.h>

#include "comm/communicator.h"

namespace samestep {
namespace {

TEST(OneProcess, IsAGroupOfOne) {
  const std::unique_ptr<Communicator> group = OneProcess();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  std::vector<uint64_t> values = {3, ~uint64_t{0}};
  group->SumIntegers(values);
  group->MaxIntegers(values);
  EXPECT_EQ(values, (std::vector<uint64_t>{3, ~uint64_t{0}}));
  EXPECT_EQ(group->Gather("mine"), std::vector<std::string>{"mine"});
  group->Barrier();
  group->Start({}, {}, 0).Wait();
  EXPECT_EQ(group->Split(7, 1)->size(), 1);
  EXPECT_EQ(group->bytes_sent(), 0u);
}

TEST(OneProcessDeathTest, HasNoPeer) {
  const std::unique_ptr<Communicator> group = OneProcess();
  const Transfer transfer{.peer = 0};
  EXPECT_DEATH(group->Start({&transfer, 1}, {}, 0), "sends.empty");
}

}  // namespace
}  // namespace samestep
