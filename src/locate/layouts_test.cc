// Runs in different layouts, and what a comparison says of faults in single ranks.
#include "locate/layouts_test.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "locate/compare.h"
#include "locate/describe.h"
#include "locate/logical.h"
#include "locate/tiling.h"

namespace samestep {
namespace {

using toy::Cut;
using toy::Folder;
using toy::Plant;
using toy::WriteTraces;

constexpr Cut kOne{};
constexpr Cut kTensor{.tensor = 2};
constexpr Cut kData{.data = 2};
constexpr Cut kPipeline{.pipeline = 2};
constexpr Cut kMixed{.data = 2, .tensor = 2, .pipeline = 2};

Comparison CompareFolders(const Folder& a, const Folder& b) {
  auto comparison = CompareTraces(a.path(), b.path(), {});
  SAMESTEP_CHECK(comparison.ok());
  return std::move(comparison).value();
}

Comparison Compare(const Cut& cut_a, const Cut& cut_b, const Plant& plant = {}) {
  Folder a, b;
  WriteTraces(a, cut_a);
  WriteTraces(b, cut_b, plant);
  return CompareFolders(a, b);
}

SegmentDifference OfOneIteration(const Cut& cut_a, const Cut& cut_b) {
  Folder folders[2];
  std::vector<TraceRank> ranks[2];
  std::vector<Segment> segments[2];
  LogicalSide sides[2];
  for (int side = 0; side < 2; ++side) {
    const Cut& cut = side == 0 ? cut_a : cut_b;
    WriteTraces(folders[side], cut);
    for (int32_t r = 0; r < cut.ranks(); ++r)
      ranks[side].push_back(TraceRank::Open(folders[side].path(), r, cut.ranks()).value());
    for (int32_t r = 0; r < cut.ranks(); ++r) {
      segments[side].push_back(ranks[side][static_cast<size_t>(r)].Read(1).value());
      sides[side].ranks.push_back(r);
    }
    for (const Segment& segment : segments[side]) sides[side].segments.push_back(&segment);
  }
  return CompareLogically(sides[0], sides[1]);
}

std::vector<Cut> AllCuts() {
  std::vector<Cut> cuts;
  for (int data : {1, 2}) {
    for (int tensor : {1, 2}) {
      for (int pipeline : {1, 2}) {
        for (int64_t micro_batch : {1, 2, 4}) cuts.push_back({data, tensor, pipeline, micro_batch});
      }
    }
  }
  return cuts;
}

TEST(Layouts, EveryLayoutComparesWithEveryOther) {
  for (const Cut& a : {kOne, kMixed, Cut{.micro_batch = 8}, kTensor}) {
    for (const Cut& b : AllCuts()) {
      const Comparison c = Compare(a, b);
      ASSERT_EQ(c.ExitCode(), 0) << DescribeText(c);
      const SegmentDifference d = OfOneIteration(a, b);
      EXPECT_GE(d.tensors, 55) << d.tensors << " " << d.compared;
      EXPECT_EQ(d.not_comparable, 0);
      EXPECT_EQ(d.in_part, 0);
      EXPECT_LE(d.only_in_one, 4);  // the reductions of gradients of two layers
    }
  }
}

// One finding of runs in another layout than A's.
const Finding& First(const Comparison& c) {
  SAMESTEP_CHECK(!c.ranks.empty() && !c.ranks[0].difference.findings.empty());
  return c.ranks[0].difference.findings[0];
}

using Ranks = std::vector<int32_t>;

TEST(Layouts, AnActivationOfOneRank) {
  for (const Cut& b : {kTensor, kData, kPipeline, kMixed}) {
    const int last = b.ranks() - 1;
    const Comparison c = Compare(kOne, b, {.tensor = "layers.1.up", .rank = last});
    ASSERT_EQ(c.ExitCode(), 1);
    const Finding& f = First(c);
    EXPECT_EQ(f.kind, FindingKind::kOrigin) << DescribeText(c);
    EXPECT_EQ(f.site.name, "linear.forward");
    EXPECT_EQ(f.site.module, "layers.1.up");
    EXPECT_EQ(f.key.iteration, 2);
    EXPECT_FALSE(f.between);
    EXPECT_TRUE(std::count(f.ranks_b.begin(), f.ranks_b.end(), last)) << DescribeText(c);
    EXPECT_EQ(c.ranks[0].last, 1);
    EXPECT_GE(c.ranks[0].difference.receivers, 5);
  }
  // Micro-batches tell data ranks apart, and the same columns tensor ranks.
  EXPECT_EQ(First(Compare(kOne, kData, {.tensor = "layers.1.up", .rank = 1})).ranks_b, Ranks{1});
  EXPECT_EQ(First(Compare(kTensor, {.data = 2, .tensor = 2}, {.tensor = "layers.1.up", .rank = 3})).ranks_b,
            Ranks{3});
}

TEST(Layouts, CallsThatAreCutOtherwise) {
  // A fused projection against three calls.
  const Comparison fused = Compare(kOne, kMixed, {.tensor = "layers.0.qkv", .rank = 3});
  ASSERT_EQ(fused.ExitCode(), 1);
  EXPECT_EQ(First(fused).kind, FindingKind::kOrigin) << DescribeText(fused);
  EXPECT_EQ(First(fused).site.module, "layers.0.c_attn");
  // One kernel for the losses against three, over other blocks of tokens.
  for (const char* tensor : {"lm_head.row_sum", "lm_head.loss", "lm_head.row_max", "dlogits"}) {
    const Comparison losses = Compare(kOne, kTensor, {.tensor = tensor});
    ASSERT_EQ(losses.ExitCode(), 1);
    EXPECT_EQ(First(losses).kind, FindingKind::kOrigin) << DescribeText(losses);
    EXPECT_EQ(First(losses).site.name, "cross_entropy");
    EXPECT_NE(
        First(losses).detail.find("B has it as cross_entropy.max, cross_entropy.sum, cross_entropy.loss"),
        std::string::npos)
        << First(losses).detail;
  }
  // A sum that completes what several calls left.
  const Comparison head = Compare(kOne, kTensor, {.tensor = "dx2", .rank = 1});
  EXPECT_EQ(First(head).site.name, "linear.backward_data + sum.tree") << DescribeText(head);
  EXPECT_EQ(First(head).site.module, "lm_head");
}

TEST(Layouts, BothSidesOfTheComparisonAreAlike) {
  Folder a, b;
  WriteTraces(a, kMixed, {.tensor = "layers.1.up", .rank = 7});
  WriteTraces(b, kOne);
  const Comparison c = CompareFolders(a, b);
  ASSERT_EQ(c.ExitCode(), 1);
  EXPECT_EQ(First(c).site.module, "layers.1.up") << DescribeText(c);
  EXPECT_TRUE(std::count(First(c).ranks_a.begin(), First(c).ranks_a.end(), 7));
}

TEST(Layouts, APartialSumAndItsReduction) {
  // Against the call that has no parts, the two are one; against the same lanes, they are told apart.
  const Plant partial{.tensor = "layers.0.down.partial1", .rank = 1},
      sum{.tensor = "layers.0.down.sum", .rank = 1};
  for (const Plant& plant : {partial, sum}) {
    const Comparison c = Compare(kOne, kTensor, plant);
    ASSERT_EQ(c.ExitCode(), 1);
    EXPECT_EQ(First(c).kind, FindingKind::kOrigin) << DescribeText(c);
    EXPECT_EQ(First(c).site.name, "linear.forward + sum.tree + sum.bias");
    EXPECT_EQ(First(c).site.module, "layers.0.down");
    EXPECT_TRUE(First(c).between);
  }
  const Cut other{.data = 2, .tensor = 2};
  const Comparison first = Compare(kTensor, other, partial), second = Compare(kTensor, other, sum);
  EXPECT_EQ(First(first).site.name, "linear.forward") << DescribeText(first);
  EXPECT_EQ(First(first).ranks_b, Ranks{1});
  EXPECT_EQ(First(second).site.name, "sum.tree + sum.bias") << DescribeText(second);
  const Comparison backward = Compare(kOne, kMixed, {.tensor = "dx1", .rank = 5});
  EXPECT_EQ(First(backward).site.name, "linear.backward_data + sum.tree") << DescribeText(backward);
  EXPECT_EQ(First(backward).site.phase, Phase::kBackward);
}

TEST(Layouts, AGradientAndItsReduction) {
  const Comparison lane = Compare(kOne, kMixed, {.tensor = "layers.1.up.lane1", .rank = 6});
  ASSERT_EQ(lane.ExitCode(), 1);
  EXPECT_EQ(First(lane).site.name, "linear.backward_weights") << DescribeText(lane);
  EXPECT_EQ(First(lane).site.module, "layers.1.up");
  for (const Cut& b : {kData, kMixed}) {
    const Comparison c = Compare(kOne, b, {.tensor = "layers.1.up.gradient", .rank = b.ranks() - 1});
    ASSERT_EQ(c.ExitCode(), 1);
    const Finding& f = First(c);
    EXPECT_EQ(f.kind, FindingKind::kOrigin) << DescribeText(c);
    EXPECT_EQ(f.site.name, "sum.tree");
    EXPECT_EQ(f.site.phase, Phase::kReduce);
    EXPECT_EQ(f.site.module, "layers.1.up.weight");
    EXPECT_NE(f.detail.find("arises between"), std::string::npos) << f.detail;
    EXPECT_NE(f.detail.find("linear.backward_weights"), std::string::npos) << f.detail;
    EXPECT_TRUE(std::count(f.ranks_b.begin(), f.ranks_b.end(), b.ranks() - 1));
  }
}

TEST(Layouts, WeightsAndScalars) {
  const Comparison weights = Compare(kOne, kTensor, {.tensor = "layers.1.up.weight", .rank = 1});
  ASSERT_EQ(weights.ExitCode(), 1);
  EXPECT_EQ(First(weights).kind, FindingKind::kState) << DescribeText(weights);
  EXPECT_EQ(First(weights).site.module, "layers.1.up");
  EXPECT_TRUE(std::count(First(weights).ranks_b.begin(), First(weights).ranks_b.end(), 1));
  const Comparison moment = Compare(kOne, kMixed, {.tensor = "layers.1.up.weight.m", .rank = 7});
  EXPECT_EQ(First(moment).kind, FindingKind::kState) << DescribeText(moment);
  EXPECT_EQ(First(moment).site.name, "adamw");
  const Comparison loss = Compare(kOne, kData, {.tensor = "loss"});
  EXPECT_EQ(First(loss).kind, FindingKind::kValue) << DescribeText(loss);
}

TEST(Layouts, CopiesThatDifferAreAFindingOfTheirOwn) {
  const Comparison gain = Compare(kOne, kTensor, {.tensor = "layers.1.gain", .rank = 1});
  ASSERT_EQ(gain.ExitCode(), 1);
  EXPECT_EQ(First(gain).kind, FindingKind::kReplica) << DescribeText(gain);
  EXPECT_EQ(First(gain).site.name, "rms_norm.forward");
  EXPECT_EQ(First(gain).site.module, "layers.1.norm");
  EXPECT_EQ(First(gain).ranks_b, Ranks{1});
  EXPECT_NE(DescribeText(gain).find("is held by ranks 0 and 1 of B, whose copies differ: that of rank 1"),
            std::string::npos)
      << DescribeText(gain);
  // The other copy, in a trace of which only that is wrong and nothing follows from it.
  const Comparison lower =
      Compare(kMixed, kTensor, {.tensor = "layers.0.gain", .rank = 0, .everywhere_after = false});
  EXPECT_EQ(First(lower).kind, FindingKind::kReplica) << DescribeText(lower);
  EXPECT_EQ(First(lower).ranks_b, Ranks{0});
  // What all tensor ranks gathered.
  const Comparison loss = Compare(kOne, kMixed, {.tensor = "loss", .rank = 3});
  EXPECT_EQ(First(loss).kind, FindingKind::kReplica) << DescribeText(loss);
  EXPECT_EQ(First(loss).ranks_b, Ranks{3});
}

TEST(Layouts, OneLayoutIsComparedRankByRank) {
  const Comparison same = Compare(kMixed, kMixed);
  EXPECT_EQ(same.ExitCode(), 0);
  EXPECT_FALSE(same.across_layouts);
  EXPECT_EQ(same.ranks.size(), 8u);
  const Comparison c =
      Compare(kMixed, kMixed, {.tensor = "layers.0.up", .rank = 2, .everywhere_after = false});
  ASSERT_EQ(c.ExitCode(), 1);
  for (const RankComparison& rank : c.ranks) {
    EXPECT_EQ(rank.verdict, rank.rank == 2 ? Verdict::kDiverged : Verdict::kSame) << rank.rank;
  }
  EXPECT_NE(DescribeText(c).find("rank 2: diverged in iteration 2"), std::string::npos) << DescribeText(c);
  EXPECT_EQ(c.ranks[2].difference.findings[0].site.module, "layers.0.up");
}

// A rank that received the difference cannot say where it arises; all together can.
TEST(Layouts, RanksOfOneLayoutAreTakenTogether) {
  for (const char* tensor : {"layers.0.up", "layers.0.down.partial1"}) {
    const Comparison c = Compare(kMixed, kMixed, {.tensor = tensor, .rank = 1});
    ASSERT_TRUE(c.together.has_value()) << DescribeText(c);
    const Finding& f = c.together->difference.findings.front();
    EXPECT_EQ(f.site.name, "linear.forward") << DescribeText(c);
    EXPECT_EQ(f.ranks_b, Ranks{1}) << DescribeText(c);
    EXPECT_EQ(c.together->last, 1);
  }
  EXPECT_FALSE(Compare(kMixed, kMixed).together.has_value());
}

TEST(Layouts, AMissingRankIsNotForgiven) {
  for (const Cut& cut : {kOne, kMixed}) {
    Folder a, b;
    WriteTraces(a, cut);
    WriteTraces(b, kMixed);
    for (const std::string& name : b.names()) {
      if (name.starts_with("rank-00003")) std::filesystem::remove(b / name);
    }
    const Comparison c = CompareFolders(a, b);
    EXPECT_EQ(c.ExitCode(), 2) << DescribeText(c);
    EXPECT_NE(DescribeText(c).find("B has no trace of rank 3"), std::string::npos) << DescribeText(c);
    // Missing in both, too.
    EXPECT_EQ(CompareFolders(b, b).ExitCode(), 2);
  }
  // A divergence is one all the same.
  Folder a, b;
  WriteTraces(a, kOne);
  WriteTraces(b, kData, {.tensor = "layers.0.up", .rank = 0});
  std::filesystem::remove(b / "rank-00001-of-00002.trace");
  EXPECT_EQ(CompareFolders(a, b).ExitCode(), 1) << DescribeText(CompareFolders(a, b));
}

TEST(Layouts, ChosenRanksCompareInPart) {
  Folder one, whole, some, spoilt;
  WriteTraces(one, kOne);
  WriteTraces(whole, kMixed);
  WriteTraces(some, kMixed, {}, "0-1");
  WriteTraces(spoilt, kMixed, {.tensor = "layers.0.up", .rank = 1}, "0-1");
  const Comparison same = CompareFolders(one, some);
  EXPECT_EQ(same.ExitCode(), 0) << DescribeText(same);
  EXPECT_NE(DescribeText(same).find("B did not record 6 of 8 ranks"), std::string::npos)
      << DescribeText(same);
  EXPECT_NE(DescribeText(same).find("compared in part"), std::string::npos) << DescribeText(same);
  const Comparison found = CompareFolders(one, spoilt);
  ASSERT_EQ(found.ExitCode(), 1) << DescribeText(found);
  EXPECT_EQ(First(found).site.module, "layers.0.up");
  // In one layout the ranks that both have.
  const Comparison ranks = CompareFolders(whole, some);
  EXPECT_EQ(ranks.ExitCode(), 0) << DescribeText(ranks);
  EXPECT_EQ(ranks.ranks.size(), 2u);
  // Nothing in common is nothing judged.
  Folder others;
  WriteTraces(others, kMixed, {}, "4-7");
  EXPECT_EQ(CompareFolders(some, others).ExitCode(), 2);
}

TEST(Tiling, OnlyAnExactCoverIsOne) {
  const Box whole{{0, 0}, {4, 6}};
  const Box left{{0, 0}, {4, 3}}, right{{0, 3}, {4, 3}}, middle{{0, 2}, {4, 3}};
  EXPECT_TRUE(Tiles({left, right}, whole));
  EXPECT_FALSE(Tiles({left, middle}, whole));
  EXPECT_FALSE(Tiles({left, left}, whole));
  EXPECT_FALSE(Tiles({left}, whole));
  EXPECT_FALSE(Tiles({left, right, middle}, whole));
  EXPECT_TRUE(Tiles({whole}, whole));
  EXPECT_FALSE(Tiles({}, whole));
  // A pinwheel: no line cuts it through.
  const Box square{{0, 0}, {3, 3}};
  const std::vector<Box> pinwheel = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_TRUE(Tiles(pinwheel, square));
  // As many elements, one twice.
  std::vector<Box> wrong = pinwheel;
  wrong.back().offsets = {0, 0};
  EXPECT_FALSE(Tiles(wrong, square));
}

TEST(Tiling, ManyPartsAreQuick) {
  std::vector<Box> boxes;
  for (int64_t i = 0; i < 200; ++i) {
    for (int64_t k = 0; k < 200; ++k) boxes.push_back({{i * 3, k * 5, 0}, {3, 5, 7}});
  }
  std::shuffle(boxes.begin(), boxes.end(), std::mt19937(1));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(Tiles(boxes, {{0, 0, 0}, {600, 1000, 7}}));
  boxes.back().offsets[0] = boxes.front().offsets[0];
  EXPECT_FALSE(Tiles(boxes, {{0, 0, 0}, {600, 1000, 7}}));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 2);
}

}  // namespace
}  // namespace samestep
