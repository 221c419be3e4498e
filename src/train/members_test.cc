#include "train/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/testing/thread_communicator.h"

namespace samestep {
namespace {

using testing::HasSubstr;

// What all ranks are told; `of` gives each rank's facts.
template <typename Facts>
std::string Verdict(int ranks, Facts of) {
  std::vector<std::string> told(static_cast<size_t>(ranks));
  RunAsRanks(ranks, [&](Communicator& group) {
    const Status status = CompareFacts(group, of(group.rank()));
    EXPECT_TRUE(status.ok() || status.ExitCode() == 3);
    told[static_cast<size_t>(group.rank())] = status.message();
  });
  for (const std::string& text : told) EXPECT_EQ(text, told.front());
  return told.front();
}

TEST(MembersTest, TheSameFactsPass) {
  EXPECT_EQ(Verdict(3,
                    [](int) {
                      return std::vector<MemberFact>{{"recipe", "a\nb\n"}, {"version", "1"}, {"empty", ""}};
                    }),
            "");
}

TEST(MembersTest, AnotherNumericsProfileIsNamedWithBothValues) {
  EXPECT_EQ(Verdict(3,
                    [](int rank) {
                      return std::vector<MemberFact>{{"numerics profile", rank == 2 ? "fma-2" : "fma-1"},
                                                     {"version", rank == 1 ? "9" : "9"}};
                    }),
            "rank 2 has another numerics profile than rank 0: fma-2 against fma-1; give every rank the same");
}

TEST(MembersTest, OfLongTextsTheFirstOtherLineIsShown) {
  const std::string text = Verdict(2, [](int rank) {
    return std::vector<MemberFact>{
        {"recipe", rank == 1 ? "[train]\nsteps = 5\nseed = 4\n" : "[train]\nsteps = 5\nseed = 3\nlr = 1\n"}};
  });
  EXPECT_THAT(text, HasSubstr("another recipe than rank 0: seed = 4 against seed = 3; give"));
}

TEST(MembersTest, AnotherNumberOfFactsIsAnotherProgram) {
  const std::string text = Verdict(2, [](int rank) {
    std::vector<MemberFact> facts = {{"version", "1"}};
    if (rank == 1) facts.push_back({"more", "1"});
    return facts;
  });
  EXPECT_THAT(text, HasSubstr("rank 1 states 2 facts about itself, rank 0 1"));
}

TEST(MembersTest, TheProgramHasADigest) { EXPECT_EQ(ProgramDigest().size(), 32u); }

}  // namespace
}  // namespace samestep
