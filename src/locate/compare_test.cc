#include "locate/compare.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "locate/align.h"
#include "locate/describe.h"
#include "locate/elements.h"
#include "trace/toy_test.h"

namespace samestep {
namespace {

using toy::BitFlip;
using toy::Environment;
using toy::Fault;
using toy::Folder;
using toy::Program;

constexpr const char* kTrace = "rank-00000-of-00001.trace";

using Variables = std::vector<std::pair<std::string, std::string>>;

void Record(const Folder& folder, Program program, Variables more = {}) {
  more.emplace_back("SAMESTEP_TRACE", folder.path());
  Environment environment(more);
  program.Run();
}

Program With(Fault::Kind kind, int64_t iteration = 3) {
  Program program;
  program.fault = {iteration, kind};
  return program;
}

Comparison Compare(const Folder& a, const Folder& b, const CompareOptions& options = {}) {
  auto comparison = CompareTraces(a.path(), b.path(), options);
  SAMESTEP_CHECK(comparison.ok());
  return std::move(comparison).value();
}

const Finding& First(const Comparison& c) {
  SAMESTEP_CHECK(!c.ranks.empty() && !c.ranks[0].difference.findings.empty());
  return c.ranks[0].difference.findings[0];
}

TEST(Compare, SameRunsAgree) {
  for (const char* level : {"iteration", "phase", "module", "kernel", "kernel-reread"}) {
    Folder a, b;
    Record(a, {}, {{"SAMESTEP_LEVEL", level}});
    Record(b, {}, {{"SAMESTEP_LEVEL", level}});
    const Comparison c = Compare(a, b);
    EXPECT_EQ(c.ExitCode(), 0) << DescribeText(c);
    EXPECT_EQ(c.ranks[0].first, 1);
    EXPECT_EQ(c.ranks[0].last, 4);
    EXPECT_EQ(c.strength, "fingerprints");
  }
}

TEST(Compare, KernelAndRereadCompare) {
  Folder a, b;
  Record(a, {});
  Record(b, {}, {{"SAMESTEP_LEVEL", "kernel-reread"}});
  EXPECT_EQ(Compare(a, b).ExitCode(), 0);
}

TEST(Compare, TheOriginIsTheCallWhoseInputsAgree) {
  Folder a, b;
  Record(a, {});
  {
    BitFlip fault(3, "layers.1");
    Record(b, {});
  }
  const Comparison c = Compare(a, b);
  ASSERT_EQ(c.ExitCode(), 1);
  EXPECT_EQ(c.ranks[0].last, 2);
  const Finding& f = First(c);
  EXPECT_EQ(f.kind, FindingKind::kOrigin);
  EXPECT_EQ(f.key, (SegmentKey{3, false}));
  EXPECT_EQ(f.site.phase, Phase::kForward);
  EXPECT_EQ(f.site.module, "layers.1");
  EXPECT_EQ(f.site.name, "toy.scale");
  EXPECT_TRUE(f.arguments[0].same());
  EXPECT_FALSE(f.arguments[1].same());
  EXPECT_EQ(c.ranks[0].difference.origins, 1);
  EXPECT_EQ(c.ranks[0].difference.receivers, 1);  // its sum over rows absorbs the bit
  const std::string text = DescribeText(c);
  EXPECT_NE(text.find("diverged in iteration 3 (iterations 1 to 2 agree)"), std::string::npos) << text;
  EXPECT_NE(text.find("origin: forward, micro-batch 0, module layers.1, kernel toy.scale"), std::string::npos)
      << text;
  EXPECT_EQ(DescribeJson(c)["ranks"][0]["findings"][0]["name"], "toy.scale");
}

TEST(Compare, CoarseLevelsNameThePhaseAndTheModule) {
  for (const char* level : {"phase", "module"}) {
    Folder a, b;
    Record(a, {}, {{"SAMESTEP_LEVEL", level}});
    {
      BitFlip fault(3, "layers.1");
      Record(b, {}, {{"SAMESTEP_LEVEL", level}});
    }
    const Comparison c = Compare(a, b);
    ASSERT_EQ(c.ExitCode(), 1);
    EXPECT_EQ(First(c).kind, FindingKind::kOrigin);
    EXPECT_EQ(First(c).site.phase, Phase::kForward);
    EXPECT_EQ(First(c).site.module, level == std::string("module") ? "layers.1" : "");
  }
}

TEST(Compare, CapturedBytesNameTheElement) {
  Folder a, b;
  const Variables capture = {{"SAMESTEP_CAPTURE", "kernel=toy.scale,iteration=3"}};
  Record(a, {}, capture);
  {
    BitFlip fault(3, "layers.1");
    Record(b, {}, capture);
  }
  const Comparison c = Compare(a, b);
  const ArgumentReport& output = First(c).arguments[1];
  ASSERT_TRUE(output.elements.has_value());
  EXPECT_EQ(output.elements->first, (std::vector<int64_t>{0, 9}));
  EXPECT_EQ(output.elements->differing, 1);
  EXPECT_EQ(output.elements->elements, 96);
  EXPECT_EQ(output.elements->ulps, 1u);
  EXPECT_EQ(c.strength, "bytes");
}

TEST(Compare, DataStateAndSettings) {
  const std::vector<std::pair<Fault::Kind, FindingKind>> cases = {
      {Fault::kData, FindingKind::kData},
      {Fault::kState, FindingKind::kState},
      {Fault::kAttribute, FindingKind::kSettings},
  };
  for (const auto& [fault, kind] : cases) {
    Folder a, b;
    Record(a, {});
    Record(b, With(fault));
    const Comparison c = Compare(a, b);
    ASSERT_EQ(c.ExitCode(), 1);
    EXPECT_EQ(First(c).kind, kind) << DescribeText(c);
    EXPECT_EQ(First(c).key.iteration, 3);
  }
}

TEST(Compare, MemoryThatChangesBetweenCallsIsSeenByReading) {
  // At level kernel a sample of the bytes happens to see it, in memory as small as this.
  for (const char* level : {"kernel-reread", "kernel"}) {
    Folder a, b;
    Record(a, {}, {{"SAMESTEP_LEVEL", level}});
    Record(b, With(Fault::kBetween), {{"SAMESTEP_LEVEL", level}});
    const Comparison c = Compare(a, b);
    ASSERT_EQ(c.ExitCode(), 1);
    EXPECT_EQ(First(c).kind, FindingKind::kChanged) << DescribeText(c);
    EXPECT_EQ(First(c).site.module, "layers.1");
  }
}

TEST(Compare, OtherStructureIsAFinding) {
  for (const auto fault : {Fault::kExtraCall, Fault::kMissingCall, Fault::kOtherOrder}) {
    Folder a, b;
    Record(a, {});
    Record(b, With(fault));
    const Comparison c = Compare(a, b);
    ASSERT_EQ(c.ExitCode(), 1) << fault;
    EXPECT_EQ(First(c).kind, FindingKind::kControlFlow) << DescribeText(c);
    EXPECT_EQ(First(c).key.iteration, 3);
    const size_t only_a = First(c).only_a.size(), only_b = First(c).only_b.size();
    if (fault == Fault::kExtraCall) {
      EXPECT_EQ(only_a * 10 + only_b, 1u);
    }
    if (fault == Fault::kMissingCall) {
      EXPECT_EQ(only_a * 10 + only_b, 10u);
    }
    if (fault == Fault::kOtherOrder) {
      EXPECT_NE(First(c).detail.find("another place"), std::string::npos);
    }
  }
}

TEST(Compare, AFaultBeforeAnotherStructureComesFirst) {
  Folder a, b;
  Record(a, {});
  {
    BitFlip fault(3, "layers.0");
    Record(b, With(Fault::kExtraCall));
  }
  const Comparison c = Compare(a, b);
  EXPECT_EQ(First(c).kind, FindingKind::kOrigin);
  EXPECT_EQ(First(c).site.module, "layers.0");
  EXPECT_EQ(c.ranks[0].difference.findings[1].kind, FindingKind::kControlFlow);
}

TEST(Compare, EvaluationInOneRunOnlyIsNoDivergence) {
  Folder a, b;
  Program evaluating;
  evaluating.evaluate = true;
  Record(a, evaluating);
  Record(b, {});
  EXPECT_EQ(Compare(a, b).ExitCode(), 0);
  // In both it is compared.
  Folder other;
  {
    BitFlip fault(4, "");
    Record(other, evaluating);
  }
  const Comparison c = Compare(a, other);
  ASSERT_EQ(c.ExitCode(), 1);
  EXPECT_EQ(First(c).site.phase, Phase::kEvaluate);
  EXPECT_TRUE(First(c).key.after);
}

TEST(Compare, AResumedRunEqualsAStraightOne) {
  Folder straight, resumed, wrong;
  Program half;
  half.finish = false;
  half.last = 2;
  Program rest;
  rest.first = 3;
  Record(straight, {});
  const std::vector<float> weights = half.Run();
  half.last = 3;  // it had gone on
  Record(resumed, half);
  {
    Environment environment({{"SAMESTEP_TRACE", resumed.path()}});
    rest.Run(weights);
  }
  EXPECT_EQ(Compare(straight, resumed).ExitCode(), 0) << DescribeText(Compare(straight, resumed));
  // Negative control: resumed with other weights.
  Record(wrong, half);
  {
    Environment environment({{"SAMESTEP_TRACE", wrong.path()}});
    rest.Run(std::vector<float>(12, 0.25f));
  }
  const Comparison c = Compare(straight, wrong);
  ASSERT_EQ(c.ExitCode(), 1);
  EXPECT_EQ(First(c).kind, FindingKind::kState);
  EXPECT_EQ(First(c).key.iteration, 3);
  EXPECT_TRUE(c.ranks[0].resumed_b);
}

TEST(Compare, OtherMicroBatchesCompareLogically) {
  Folder a, b, c;
  Record(a, {});
  Program small;
  small.micro_batch = 2;
  Record(b, small);
  const Comparison same = Compare(a, b);
  EXPECT_EQ(same.ExitCode(), 0) << DescribeText(same);
  EXPECT_TRUE(same.across_layouts);
  {
    BitFlip fault(3, "layers.1");
    Record(c, small);
  }
  const Comparison other = Compare(a, c);
  ASSERT_EQ(other.ExitCode(), 1);
  EXPECT_EQ(First(other).kind, FindingKind::kOrigin) << DescribeText(other);
  EXPECT_EQ(First(other).site.module, "layers.1");
  EXPECT_EQ(First(other).site.name, "toy.scale");
  EXPECT_EQ(First(other).key.iteration, 3);
  EXPECT_EQ(other.ranks[0].last, 2);
  // The accumulated total alone.
  Folder d;
  {
    BitFlip fault(2, "layers.0", "toy.rows", 12, 1);
    Record(d, small);
  }
  const Comparison total = Compare(a, d);
  ASSERT_EQ(total.ExitCode(), 1) << DescribeText(total);
  EXPECT_EQ(First(total).site.name, "toy.rows");
  EXPECT_EQ(First(total).key.iteration, 2);
}

TEST(Compare, RollUpsDoNotCompareAcrossLayouts) {
  Folder a, b;
  Record(a, {}, {{"SAMESTEP_LEVEL", "module"}});
  Program small;
  small.micro_batch = 4;
  Record(b, small, {{"SAMESTEP_LEVEL", "module"}});
  EXPECT_EQ(Compare(a, b).ExitCode(), 2);
}

TEST(Compare, WhatCannotBeJudgedSaysWhy) {
  const auto refuses = [](const Folder& a, const Folder& b, const std::string& word) {
    const Comparison c = Compare(a, b);
    EXPECT_EQ(c.ExitCode(), 2) << word;
    EXPECT_NE(DescribeText(c).find(word), std::string::npos) << DescribeText(c);
  };
  Folder good, level, recipe, shorter, killed;
  Record(good, {});
  Record(level, {}, {{"SAMESTEP_LEVEL", "phase"}});
  refuses(good, level, "SAMESTEP_LEVEL");
  Program other;
  other.header.recipe_digest = "fedcba";
  Record(recipe, other);
  refuses(good, recipe, "--other-recipe");
  CompareOptions allowed;
  allowed.other_recipe = true;
  EXPECT_EQ(Compare(good, recipe, allowed).ExitCode(), 0);
  EXPECT_EQ(Compare(good, recipe, allowed).warnings.size(), 1u);
  Program three;
  three.last = 3;
  Record(shorter, three);
  refuses(good, shorter, "ends after iteration 3");
  CompareOptions range;
  range.iterations = *Selection::Parse("1-3", "");
  EXPECT_EQ(Compare(good, shorter, range).ExitCode(), 0);
  three.last = 4;
  three.finish = false;
  Record(killed, three);
  refuses(good, killed, "not finished");
  Folder nothing;
  EXPECT_FALSE(CompareTraces(good.path(), nothing.path(), {}).ok());
  EXPECT_FALSE(CompareTraces(good.path(), "/nonexistent", {}).ok());
  toy::Put(nothing / kTrace, "a file of another kind");
  EXPECT_FALSE(CompareTraces(good.path(), nothing.path(), {}).ok());
  // Other versions of software are a warning.
  Folder newer;
  Program newest;
  newest.header.software["samestep"] = "0.2.0";
  Record(newer, newest);
  EXPECT_EQ(Compare(good, newer).ExitCode(), 0);
  EXPECT_EQ(Compare(good, newer).warnings.size(), 1u);
}

TEST(Compare, ATruncatedOrDamagedTraceIsNeverTheSame) {
  Folder good, bad;
  Program two;
  two.last = 2;
  Record(good, two);
  Record(bad, two);
  const std::string bytes = *ReadFile(bad / kTrace);
  for (size_t length = 0; length < bytes.size(); length += 3) {
    toy::Put(bad / kTrace, bytes.substr(0, length));
    const auto c = CompareTraces(good.path(), bad.path(), {});
    EXPECT_EQ(c.ok() ? c->ExitCode() : c.status().ExitCode(), 2) << length;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
    toy::Put(bad / kTrace, damaged);
    const auto c = CompareTraces(good.path(), bad.path(), {});
    EXPECT_EQ(c.ok() ? c->ExitCode() : c.status().ExitCode(), 2) << at;
  }
}

CompareOptions Chosen(const char* iterations,
                      CompareOptions::Verify verify = CompareOptions::Verify::kIfSmall) {
  CompareOptions options;
  options.iterations = *Selection::Parse(iterations, "");
  options.verify = verify;
  return options;
}

TEST(Compare, ChosenIterationsForgiveATornTailAndNoDamage) {
  Folder good, bad;
  Program two;
  two.last = 2;
  Record(good, two);
  Record(bad, two);
  const std::string path = bad / kTrace, whole = *ReadFile(path);
  const std::string killed = whole.substr(0, whole.size() - 32);  // without the block that ends it
  std::vector<uint64_t> ends;
  for (const RollUp& r : (*TraceFile::Open(path))->segments()) ends.push_back(r.end);
  ASSERT_EQ(ends.size(), 2u);
  // Killed, or with the next segment's beginning: whole up to there, and no further.
  for (const std::string& tail : {std::string(), whole.substr(ends[0], 40)}) {
    toy::Put(path, killed + tail);
    const Comparison c = Compare(good, bad, Chosen("1-2"));
    EXPECT_EQ(c.ExitCode(), 0) << DescribeText(c);
    EXPECT_TRUE(c.verified);
    EXPECT_EQ(Compare(good, bad).ExitCode(), 2);
    EXPECT_EQ(Compare(bad, bad, Chosen("1-3")).ExitCode(), 2);
    EXPECT_NE(DescribeText(Compare(good, bad)).find("--iterations 1-2"), std::string::npos);
  }
  for (const bool has_side : {true, false}) {
    if (!has_side) std::filesystem::remove(bad / "rank-00000-of-00001.rollup");
    for (size_t at = 0; at < killed.size(); ++at) {
      std::string damaged = killed;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << at % 8);
      toy::Put(path, damaged);
      const auto c = CompareTraces(good.path(), bad.path(), Chosen("1-2"));
      EXPECT_EQ(c.ok() ? c->ExitCode() : c.status().ExitCode(), 2) << at;
    }
  }
}

TEST(Compare, ChecksumsAreClaimedOnlyIfAllWereRead) {
  Folder good, bad, fault;
  Record(good, {});
  Record(bad, {});
  Record(fault, With(Fault::kData));
  EXPECT_TRUE(Compare(good, bad).verified);
  EXPECT_FALSE(Compare(good, fault).verified);  // it stops at the difference
  std::string damaged = *ReadFile(bad / kTrace);
  damaged[(*TraceFile::Open(bad / kTrace))->segments()[1].end + 40] ^= 1;
  toy::Put(bad / kTrace, damaged);
  using Verify = CompareOptions::Verify;
  for (const char* iterations : {"all", "1-4", "3"}) {
    EXPECT_EQ(Compare(good, bad, Chosen(iterations)).ExitCode(), 2);
    EXPECT_EQ(Compare(bad, good, Chosen(iterations, Verify::kYes)).ExitCode(), 2);
    const Comparison quick = Compare(good, bad, Chosen(iterations, Verify::kNo));
    EXPECT_EQ(quick.ExitCode(), 0);  // by roll-ups, and it says so
    EXPECT_FALSE(quick.verified);
    EXPECT_NE(DescribeText(quick).find("not the checksums"), std::string::npos);
    EXPECT_LT(quick.bytes_read, quick.bytes);
  }
}

TEST(Compare, RollUpsOfAnotherRunAreNotBelieved) {
  Folder good, bad;
  Record(good, {});
  {
    BitFlip fault(3, "layers.1");
    Record(bad, {});
  }
  const std::string side = "rank-00000-of-00001.rollup";
  toy::Put(bad / side, *ReadFile(good / side));
  for (const auto verify : {CompareOptions::Verify::kIfSmall, CompareOptions::Verify::kNo}) {
    for (const char* iterations : {"all", "3"}) {
      const Comparison c = Compare(good, bad, Chosen(iterations, verify));
      ASSERT_EQ(c.ExitCode(), 1) << DescribeText(c);
      EXPECT_EQ(First(c).key.iteration, 3);
      EXPECT_EQ(First(c).site.module, "layers.1");
    }
  }
}

TEST(Compare, DamageBeforeAResumeIsFound) {
  Folder straight, resumed;
  Program half, rest;
  half.finish = false;
  half.last = 2;
  rest.first = 3;
  Record(straight, {});
  const std::vector<float> weights = half.Run();
  Record(resumed, half);
  {
    Environment environment({{"SAMESTEP_TRACE", resumed.path()}});
    rest.Run(weights);
  }
  const std::string path = resumed / kTrace, whole = *ReadFile(path);
  const std::string torn = whole + whole.substr((*TraceFile::Open(path))->segments()[0].end, 40);
  toy::Put(path, torn);
  EXPECT_EQ(Compare(straight, resumed).ExitCode(), 0) << DescribeText(Compare(straight, resumed));
  std::string damaged = torn;
  damaged[(*TraceFile::Open(path))->segments()[0].end + 40] ^= 1;
  toy::Put(path, damaged);
  EXPECT_EQ(Compare(straight, resumed).ExitCode(), 2);
}

TEST(Compare, SelectionsOfOneSideAreNotMissing) {
  Folder a, b;
  Record(a, {});
  Record(b, {}, {{"SAMESTEP_ITERATIONS", "2-3"}});
  const Comparison c = Compare(a, b);
  EXPECT_EQ(c.ExitCode(), 0) << DescribeText(c);
  EXPECT_EQ(c.ranks[0].first, 2);
  EXPECT_EQ(c.ranks[0].last, 3);
}

TEST(Align, IsAShortestScript) {
  const auto cost = [](const std::vector<Step>& steps) {
    return std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.a < 0 || s.b < 0; });
  };
  EXPECT_EQ(cost(Align({}, {})), 0);
  EXPECT_EQ(cost(Align({1, 2, 3}, {1, 2, 3})), 0);
  EXPECT_EQ(cost(Align({1, 2, 3}, {1, 3})), 1);
  EXPECT_EQ(cost(Align({1, 2}, {1, 9, 2, 8})), 2);
  EXPECT_EQ(cost(Align({1, 2, 3, 4}, {3, 4, 1, 2})), 4);
  EXPECT_EQ(cost(Align({1}, {2})), 2);
  // Against the longest common subsequence, on all short sequences.
  for (int seed = 0; seed < 3000; ++seed) {
    std::vector<int64_t> a, b;
    uint64_t r = SplitMix(static_cast<uint64_t>(seed));
    for (uint64_t i = 0; i < r % 9; ++i) a.push_back(static_cast<int64_t>(SplitMix(r + i) % 3));
    for (uint64_t i = 0; i < r / 16 % 9; ++i) b.push_back(static_cast<int64_t>(SplitMix(r + 100 + i) % 3));
    std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1));
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < b.size(); ++j) {
        common[i + 1][j + 1] = a[i] == b[j] ? common[i][j] + 1 : std::max(common[i][j + 1], common[i + 1][j]);
      }
    }
    const auto steps = Align(a, b);
    EXPECT_EQ(cost(steps), static_cast<int64_t>(a.size() + b.size()) - 2 * common[a.size()][b.size()]);
    int64_t next_a = 0, next_b = 0;
    for (const Step& s : steps) {
      if (s.a >= 0) {
        EXPECT_EQ(s.a, next_a++);
      }
      if (s.b >= 0) {
        EXPECT_EQ(s.b, next_b++);
      }
      if (s.a >= 0 && s.b >= 0) {
        EXPECT_EQ(a[static_cast<size_t>(s.a)], b[static_cast<size_t>(s.b)]);
      }
    }
    EXPECT_EQ(next_a, static_cast<int64_t>(a.size()));
    EXPECT_EQ(next_b, static_cast<int64_t>(b.size()));
  }
}

TEST(Elements, DistancesInUnitsInTheLastPlace) {
  const auto distance = [](float a, float b) {
    CapturedTensor x, y;
    x.site.shape = y.site.shape = x.site.global_shape = y.site.global_shape = {1};
    x.site.offsets = y.site.offsets = {0};
    x.bytes.assign(reinterpret_cast<const char*>(&a), 4);
    y.bytes.assign(reinterpret_cast<const char*>(&b), 4);
    return CompareElements(x, y).ulps;
  };
  EXPECT_EQ(distance(1, std::nextafter(1.0f, 2.0f)), 1u);
  EXPECT_EQ(distance(0.0f, -0.0f), 1u);
  EXPECT_EQ(distance(-1e-45f, 1e-45f), 3u);
  EXPECT_EQ(distance(2, 4), 1u << 23);
}

}  // namespace
}  // namespace samestep
