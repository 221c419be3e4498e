#include "trace/stream.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "trace/capture.h"
#include "trace/toy_test.h"

namespace samestep {
namespace {

using toy::Environment;
using toy::Folder;
using toy::Program;

TEST(Event, PhasesAreNamedAsTheContextNamesThem) {
  for (int p = 0; p < kPhaseCount; ++p) {
    EXPECT_EQ(PhaseName(static_cast<Phase>(p)), NameOf(static_cast<Phase>(p)));
  }
}

TEST(Selection, ReadsWhatPeopleWrite) {
  const auto set = Selection::Parse("1-3,8,100:110", "x");
  ASSERT_TRUE(set.ok());
  for (int64_t n : {1, 2, 3, 8, 100, 110}) EXPECT_TRUE(set->Has(n));
  for (int64_t n : {0, 4, 9, 99, 111}) EXPECT_FALSE(set->Has(n));
  EXPECT_EQ(set->ToString(), "1-3,8,100-110");
  EXPECT_TRUE(Selection::Parse("all", "x")->Has(1 << 30));
  for (const char* bad : {"", "a", "3-1", "1,,2", "1-", "-2", "1:2:3", "99999999999999999999"}) {
    const auto refused = Selection::Parse(bad, "SAMESTEP_ITERATIONS");
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.status().code(), StatusCode::kUsage);
    EXPECT_NE(refused.status().message().find("SAMESTEP_ITERATIONS"), std::string::npos);
  }
}

TraceRank OpenRank(const std::string& folder) {
  auto rank = TraceRank::Open(folder, 0, 1);
  SAMESTEP_CHECK(rank.ok());
  return std::move(rank).value();
}

TEST(Stream, UnsetRecordsNothing) {
  Folder folder;
  Program().Run();
  EXPECT_TRUE(folder.names().empty());
}

TEST(Stream, WhatWasRecordedIsRead) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program().Run();
  TraceRank rank = OpenRank(folder.path());
  EXPECT_TRUE(rank.finished());
  EXPECT_EQ(rank.Damage(), "");
  EXPECT_TRUE(rank.Verify().ok());
  ASSERT_EQ(rank.segments().size(), 4u);
  auto segment = rank.Read(2);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  EXPECT_EQ(segment->key, (SegmentKey{3, false}));
  ASSERT_EQ(segment->events.size(), 8u);  // tokens, two forward, two backward, two updates, loss
  EXPECT_EQ(segment->site(0).name, "tokens");
  const Site& scale = segment->site(1);
  EXPECT_EQ(scale.Place(), "forward layers.0 toy.scale");
  ASSERT_EQ(scale.tensors.size(), 2u);
  EXPECT_EQ(scale.tensors[0].role, "src");
  EXPECT_FALSE(scale.tensors[0].output);
  EXPECT_EQ(scale.tensors[1].role, "dst");
  EXPECT_TRUE(scale.tensors[1].output);
  // Each fingerprint is made once: the input of layer 1 is the output of layer 0.
  EXPECT_EQ(segment->definition(2).sources[0], 1u);
  EXPECT_EQ(segment->slot(2, 0), segment->slot(1, 1));
  EXPECT_EQ(segment->slot(0, 0), segment->slot(1, 0));
  const uint32_t half = 0x3F000000;
  EXPECT_EQ(segment->value(1, 0), half);
  EXPECT_EQ(segment->site(7).kind, EventKind::kValue);
}

TEST(Stream, RollUpsAreTheSameAtEveryLevelThatHasCalls) {
  std::vector<RollUp> reference;
  for (const char* level : {"phase", "module", "kernel", "kernel-reread"}) {
    Folder folder;
    Environment environment({{"SAMESTEP_TRACE", folder.path()}, {"SAMESTEP_LEVEL", level}});
    Program().Run();
    TraceRank rank = OpenRank(folder.path());
    for (size_t i = 0; i < rank.segments().size(); ++i) {
      if (reference.size() <= i) reference.push_back(rank.roll_up(i));
      EXPECT_TRUE(reference[i].Agrees(rank.roll_up(i))) << level;
      EXPECT_NE(rank.roll_up(i).required, Digest());
    }
  }
  EXPECT_NE(reference[0].required, reference[1].required);
}

TEST(Stream, RollUpsCanBeMadeAgainFromEvents) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program().Run();
  TraceRank rank = OpenRank(folder.path());
  for (size_t i = 0; i < rank.segments().size(); ++i) {
    const auto segment = rank.Read(i);
    ASSERT_TRUE(segment.ok());
    RollUpBuilder builder;
    for (size_t e = 0; e < segment->events.size(); ++e) {
      const Event& event = segment->events[e];
      const Definition& definition = segment->definition(e);
      builder.Add(definition,
                  std::span(segment->values).subspan(event.first_value, Segment::ValuesOf(definition.site)),
                  std::span(segment->slots).subspan(event.first_slot, definition.site.tensors.size()),
                  event.first_slot);
    }
    EXPECT_TRUE(builder.Finish(segment->key).Agrees(rank.roll_up(i)));
  }
}

TEST(Stream, LevelsHoldWhatTheySay) {
  const auto events = [](const char* level) {
    Folder folder;
    Environment environment({{"SAMESTEP_TRACE", folder.path()}, {"SAMESTEP_LEVEL", level}});
    Program().Run();
    TraceRank rank = OpenRank(folder.path());
    std::vector<std::string> kinds;
    const auto segment = rank.Read(0);
    for (size_t e = 0; e < segment->events.size(); ++e) {
      kinds.push_back(std::string(KindName(segment->site(e).kind)));
    }
    return kinds;
  };
  using Kinds = std::vector<std::string>;
  EXPECT_EQ(events("iteration"), (Kinds{"tensor", "value"}));
  EXPECT_EQ(events("phase"), (Kinds{"tensor", "phase", "phase", "value", "phase"}));
  EXPECT_EQ(events("module"), (Kinds{"tensor", "module", "module", "module", "module", "value", "module"}));
  EXPECT_EQ(events("kernel"), (Kinds{"tensor", "call", "call", "call", "call", "call", "call", "value"}));
}

TEST(Stream, SelectsIterationsAndRanks) {
  Folder folder;
  {
    Environment environment({{"SAMESTEP_TRACE", folder.path()}, {"SAMESTEP_ITERATIONS", "2-3"}});
    Program().Run();
  }
  TraceRank rank = OpenRank(folder.path());
  ASSERT_EQ(rank.segments().size(), 2u);
  EXPECT_EQ(rank.segments()[0].key.iteration, 2);
  EXPECT_FALSE(rank.Selects(1));
  Folder other;
  Environment environment({{"SAMESTEP_TRACE", other.path()}, {"SAMESTEP_RANKS", "3"}});
  Program().Run();
  EXPECT_TRUE(other.names().empty());
  Program third;
  third.header.rank = 3;
  third.header.ranks = 8;
  third.Run();
  const auto recorded = TraceRank::Open(other.path(), 3, 8);
  ASSERT_TRUE(recorded.ok());
  EXPECT_EQ(recorded->header().recorded_ranks, "3");
  // A header of before that was written says nothing of it.
  std::string json = recorded->header().ToJson();
  const std::string field = "\"recorded_ranks\":\"3\",";
  ASSERT_NE(json.find(field), std::string::npos) << json;
  json.erase(json.find(field), field.size());
  EXPECT_EQ(TraceHeader::FromJson(json)->recorded_ranks, "all");
}

TEST(Stream, BadVariablesAreNamed) {
  Folder folder;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"SAMESTEP_LEVEL", "kernels"},
                                                        {"SAMESTEP_ITERATIONS", "one"},
                                                        {"SAMESTEP_RANKS", "x"},
                                                        {"SAMESTEP_CAPTURE", "kernel"},
                                                        {"SAMESTEP_CAPTURE", "limit=many"},
                                                        {"SAMESTEP_CAPTURE", "color=red"}}) {
    Environment environment({{"SAMESTEP_TRACE", folder.path()}, {name, value}});
    const auto made = MakeRecorder(toy::Header());
    ASSERT_FALSE(made.ok()) << name;
    EXPECT_EQ(made.status().code(), StatusCode::kUsage);
    EXPECT_NE(made.status().message().find(name), std::string::npos) << made.status().message();
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(Stream, AnotherRecipeOrNumberOfRanksInTheFolderIsRefused) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program().Run();
  TraceHeader recipe = toy::Header(), ranks = toy::Header();
  recipe.recipe_digest = "another";
  ranks.ranks = 2;
  for (const TraceHeader& other : {recipe, ranks}) {
    const auto made = MakeRecorder(other);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), StatusCode::kConflict);
  }
  EXPECT_TRUE(MakeRecorder(toy::Header()).ok());
}

TEST(Stream, AResumedRunReplacesWhatItDidAgainAndDestroysNothing) {
  Folder folder, straight_folder;
  const auto straight = [&] {
    Environment environment({{"SAMESTEP_TRACE", straight_folder.path()}});
    return Program{.first = 1, .last = 6}.Run();
  }();
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  const std::vector<float> at_3 = Program{.first = 1, .last = 3, .finish = false}.Run();
  // Went on to 5 and was killed; the checkpoint is of iteration 3.
  std::filesystem::remove_all(folder.path());
  Program{.first = 1, .last = 5, .finish = false}.Run();
  const std::string before = *ReadFile(folder / "rank-00000-of-00001.trace");
  EXPECT_EQ(Program({.first = 4, .last = 6}).Run(at_3), straight);
  EXPECT_EQ(*ReadFile(folder / "rank-00000-of-00001.trace"), before);
  TraceRank resumed = OpenRank(folder.path()), whole = OpenRank(straight_folder.path());
  ASSERT_EQ(resumed.segments().size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(resumed.segments()[i].generation, i < 3 ? 0 : 1);
    EXPECT_TRUE(resumed.roll_up(i).Agrees(whole.roll_up(i)));
  }
  EXPECT_EQ(resumed.Damage(), "");
}

TEST(Stream, ReadableToTheLastWholeSegmentAtEveryLength) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program{.last = 3}.Run();
  const std::string path = folder / "rank-00000-of-00001.trace";
  const std::string bytes = *ReadFile(path);
  const std::string side = *ReadFile(folder / "rank-00000-of-00001.rollup");
  std::vector<uint64_t> ends;
  {
    const TraceRank rank = OpenRank(folder.path());
    for (const RollUp& r : rank.file(0).segments()) ends.push_back(r.end);
  }
  for (size_t length = 0; length <= bytes.size(); ++length) {
    for (const bool has_side : {true, false}) {
      toy::Put(path, bytes.substr(0, length));
      if (has_side) {
        toy::Put(folder / "rank-00000-of-00001.rollup", side);
      } else {
        std::filesystem::remove(folder / "rank-00000-of-00001.rollup");
      }
      auto file = TraceFile::Open(path);
      const auto whole = static_cast<size_t>(
          std::count_if(ends.begin(), ends.end(), [&](uint64_t end) { return end <= length; }));
      if (!file.ok()) {
        EXPECT_LT(length, ends[0]);
        continue;
      }
      ASSERT_EQ((*file)->segments().size(), whole) << length;
      EXPECT_EQ((*file)->finished(), length == bytes.size());
      for (size_t i = 0; i < whole; ++i) EXPECT_TRUE((*file)->Read(i).ok());
      if (length < bytes.size() && std::count(ends.begin(), ends.end(), length) == 0 && whole > 0) {
        EXPECT_NE((*file)->damage(), "") << length;
      }
    }
  }
}

TEST(Stream, EveryFlippedBitIsFound) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program{.last = 2}.Run();
  const std::string bytes = *ReadFile(folder / "rank-00000-of-00001.trace");
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    auto file = TraceFile::FromBytes(damaged, "damaged");
    const bool found = !file.ok() || !(*file)->damage().empty() || !(*file)->Verify().ok();
    EXPECT_TRUE(found) << "byte " << at;
    if (!file.ok()) continue;
    for (size_t i = 0; i < (*file)->segments().size(); ++i) (void)(*file)->Read(i);
  }
}

TEST(Stream, ADamagedSideFileIsDoneWithout) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program().Run();
  const std::string path = folder / "rank-00000-of-00001.rollup";
  const std::string side = *ReadFile(path);
  std::vector<RollUp> good;
  {
    TraceRank rank = OpenRank(folder.path());
    for (size_t i = 0; i < 4; ++i) good.push_back(rank.roll_up(i));
  }
  for (size_t at = 0; at < side.size(); at += 3) {
    std::string damaged = side;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    toy::Put(path, damaged);
    TraceRank rank = OpenRank(folder.path());
    ASSERT_EQ(rank.segments().size(), 4u);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rank.roll_up(i).required, good[i].required);
    EXPECT_EQ(rank.Damage(), "");
  }
}

TEST(Stream, CapturesTheBytesOfChosenCalls) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()},
                           {"SAMESTEP_CAPTURE", "kernel=toy.*,module=layers.1,iteration=2-3"}});
  Program().Run();
  std::vector<std::string> captures;
  for (const std::string& name : folder.names()) {
    if (name.starts_with("capture")) captures.push_back(name);
  }
  ASSERT_EQ(captures.size(), 4u);  // forward and backward, two iterations
  const auto capture = ReadCapture(folder / captures[0]);
  ASSERT_TRUE(capture.ok()) << capture.status().message();
  EXPECT_EQ(capture->site.name, "toy.scale");
  EXPECT_EQ(capture->key.iteration, 2);
  TraceRank rank = OpenRank(folder.path());
  const auto segment = rank.Read(1);
  ASSERT_EQ(capture->tensors.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    std::string bytes = capture->tensors[i].bytes;
    EXPECT_EQ(FingerprintOf(ViewOf(bytes.data(), capture->tensors[i].site.shape)),
              segment->slot(capture->event, i));
  }
  // A limit keeps what fits.
  Folder small;
  Environment limited({{"SAMESTEP_TRACE", small.path()}, {"SAMESTEP_CAPTURE", "kernel=toy.scale,limit=1K"}});
  Program().Run();
  int count = 0;
  for (const std::string& name : small.names()) count += name.starts_with("capture") ? 1 : 0;
  EXPECT_EQ(count, 1);
}

TEST(Stream, ACallTakesLittleRoom) {
  Folder folder;
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  Program program;
  program.layers = 12;
  program.last = 40;
  program.Run();
  TraceRank rank = OpenRank(folder.path());
  uint64_t events = 0;
  for (size_t i = 0; i < rank.segments().size(); ++i) events += rank.roll_up(i).events;
  const double bytes = static_cast<double>(rank.file(0).size() + rank.file(0).side_size());
  EXPECT_EQ(events, 40u * (3 * 12 + 2));
  EXPECT_LT(bytes / static_cast<double>(events), 48);
  EXPECT_GT(bytes / static_cast<double>(events), 16);  // a fingerprint does not compress
}

TEST(Stream, AFullDiskIsAStatusAndWhatStandsStaysWhole) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  Folder folder;
  // The roll-ups go to a device that is always full; the trace itself is whole.
  std::filesystem::create_symlink("/dev/full", folder / "rank-00000-of-00001.rollup");
  Environment environment({{"SAMESTEP_TRACE", folder.path()}});
  const auto made = MakeRecorder(toy::Header());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::kIo);
}

}  // namespace
}  // namespace samestep
