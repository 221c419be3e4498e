#include "parallel/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace samestep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const LayoutWidths kWide{.data_lanes = 4,
                         .tensor_lanes = 4,
                         .context_lanes = 1,
                         .layers = 12,
                         .global_batch = 16,
                         .micro_batch = 1};

std::string Refusal(const Layout& layout, const LayoutWidths& widths, int ranks) {
  const Status status = CheckLayout(layout, widths, ranks);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::kUsage);
  }
  return status.message();
}

TEST(Layout, RanksHaveOnePlaceEach) {
  const Layout layout{.data = 3, .tensor = 2, .pipeline = 4};
  int rank = 0;
  for (int pipeline = 0; pipeline < 4; ++pipeline) {
    for (int data = 0; data < 3; ++data) {
      for (int tensor = 0; tensor < 2; ++tensor, ++rank) {
        const RankPlace place = PlaceOf(layout, rank);
        EXPECT_EQ(place.pipeline, pipeline);
        EXPECT_EQ(place.data, data);
        EXPECT_EQ(place.tensor, tensor);
        EXPECT_EQ(RankOf(layout, place), rank);
      }
    }
  }
  EXPECT_EQ(rank, layout.ranks());
}

TEST(Layout, PartsCoverEverythingOnce) {
  for (int64_t total : {0, 1, 5, 12, 50257}) {
    for (int parts : {1, 2, 3, 7, 16}) {
      int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range part = PartOf(total, parts, i);
        EXPECT_EQ(part.first, next);
        EXPECT_GE(part.count, total / parts);
        EXPECT_LE(part.count, (total + parts - 1) / parts);
        if (i > 0) {
          EXPECT_LE(part.count, PartOf(total, parts, i - 1).count);
        }
        next = part.end();
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(Layout, ChunksOfALaterRankFollow) {
  const Layout layout{.pipeline = 2, .chunks = 2};
  EXPECT_EQ(LayersOf(layout, 0, 0, {.layers = 10}), (Range{0, 3}));
  EXPECT_EQ(LayersOf(layout, 1, 0, {.layers = 10}), (Range{3, 2}));
  EXPECT_EQ(LayersOf(layout, 0, 1, {.layers = 10}), (Range{5, 3}));
  EXPECT_EQ(LayersOf(layout, 1, 1, {.layers = 10}), (Range{8, 2}));
  // The head of GPT-2 124M costs as much as five of its twelve layers.
  const LayerCosts gpt2{.layers = 12, .layer = 10, .head = 52};
  EXPECT_EQ(LayersOf({.pipeline = 2}, 0, 0, gpt2), (Range{0, 9}));
  EXPECT_EQ(LayersOf({.pipeline = 2}, 1, 0, gpt2), (Range{9, 3}));
  // A head that outweighs all layers leaves each chunk one.
  EXPECT_EQ(LayersOf({.pipeline = 4}, 3, 0, {.layers = 4, .layer = 1, .head = 100}), (Range{3, 1}));
  EXPECT_EQ(SamplesOf({.data = 4}, {.data = 3}, 16), (Range{12, 4}));
}

// A tree of lanes as text, pairs combined as numerics page 1.1 writes it.
std::string Tree(std::vector<std::string> lanes) {
  while (lanes.size() > 1) {
    std::vector<std::string> next;
    for (size_t i = 0; i + 1 < lanes.size(); i += 2)
      next.push_back("(" + lanes[i] + "+" + lanes[i + 1] + ")");
    if (lanes.size() % 2 == 1) next.push_back(lanes.back());
    lanes = std::move(next);
  }
  return lanes[0];
}

// The tree of the ranks' own trees: what a layout computes.
std::string TreeOfRanks(int lanes, int ranks) {
  std::vector<std::string> partials;
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::string> own;
    for (int i = 0; i < lanes / ranks; ++i) own.push_back(std::to_string(r * (lanes / ranks) + i));
    partials.push_back(Tree(own));
  }
  return Tree(partials);
}

TEST(CheckLayout, AllowsExactlyWhatKeepsTheTree) {
  for (int lanes = 1; lanes <= 48; ++lanes) {
    const std::string whole = TreeOfRanks(lanes, 1);
    for (int ranks = 1; ranks <= 48; ++ranks) {
      const bool keeps = lanes % ranks == 0 && TreeOfRanks(lanes, ranks) == whole;
      const LayoutWidths data{.data_lanes = lanes, .global_batch = lanes};
      EXPECT_EQ(CheckLayout({.data = ranks}, data, ranks).ok(), keeps) << lanes << " lanes, " << ranks;
      const LayoutWidths tensor{.tensor_lanes = lanes};
      EXPECT_EQ(CheckLayout({.tensor = ranks}, tensor, ranks).ok(), keeps) << lanes << " lanes, " << ranks;
    }
  }
}

TEST(CheckLayout, AllowsMixedLayoutsOfEightRanks) {
  const std::vector<Layout> allowed = AllowedLayouts(kWide, 8);
  for (const Layout& layout : allowed) {
    EXPECT_TRUE(CheckLayout(layout, kWide, 8).ok()) << layout.ToString();
    EXPECT_EQ(layout.ranks(), 8);
  }
  // Pipelines of 1, 2, 4 and 8; all but the first and the last with two chunks as well.
  EXPECT_EQ(allowed.size(), 2u + 2 * 3 + 2 * 2 + 1);
  EXPECT_EQ(AllowedLayouts({}, 1).size(), 1u);
}

TEST(CheckLayout, NamesTheFieldAndWhatIsAllowed) {
  EXPECT_THAT(Refusal({.data = 8}, kWide, 8),
              ::testing::AllOf(HasSubstr("layout.data 8 does not divide invariance.data_lanes 4"),
                               HasSubstr("allowed for 8 processes: data 4 x tensor 2 x pipeline 1; ")));
  EXPECT_THAT(Refusal({.tensor = 3}, kWide, 3), HasSubstr("layout.tensor 3 does not divide"));
  EXPECT_THAT(Refusal({.data = 0}, kWide, 8), HasSubstr("layout.data is 0, and must be at least 1"));
  EXPECT_THAT(Refusal({.tensor = -2}, kWide, 8), HasSubstr("layout.tensor is -2"));
  EXPECT_THAT(Refusal({.pipeline = 13}, kWide, 13),
              HasSubstr("layout.pipeline 13 is more than model.layers 12"));
  EXPECT_THAT(Refusal({.pipeline = 8, .chunks = 2}, kWide, 8),
              HasSubstr("layout.pipeline 8 * layout.chunks 2 = 16 is more than model.layers 12"));
  EXPECT_THAT(Refusal({.chunks = 2}, kWide, 1), HasSubstr("layout.chunks 2 needs a pipeline"));
  EXPECT_THAT(Refusal({.data = 2, .tensor = 2}, kWide, 8),
              HasSubstr("the number of processes that were started, 8"));
}

TEST(CheckLayout, NeedsWholeSubtrees) {
  LayoutWidths widths{.data_lanes = 6, .tensor_lanes = 2, .context_lanes = 3, .global_batch = 6};
  EXPECT_THAT(Refusal({.data = 2}, widths, 2),
              HasSubstr("layout.data 2 leaves each rank 3 of invariance.data_lanes 6"));
  EXPECT_TRUE(CheckLayout({.data = 3}, widths, 3).ok());
  EXPECT_THAT(Refusal({.tensor = 2}, widths, 2), HasSubstr("invariance.context_lanes * tensor_lanes 6"));
}

TEST(CheckLayout, InterleavingNeedsWholeGroupsOfMicroBatches) {
  LayoutWidths widths{.layers = 8, .global_batch = 12, .micro_batch = 2};
  EXPECT_TRUE(CheckLayout({.pipeline = 2, .chunks = 2}, widths, 2).ok());
  EXPECT_THAT(Refusal({.pipeline = 4, .chunks = 2}, widths, 4),
              HasSubstr("multiple of layout.pipeline 4 micro-batches, but 12 samples a data rank in "
                        "train.micro_batch 2 make 6"));
  EXPECT_TRUE(CheckLayout({.pipeline = 4}, widths, 4).ok());
}

TEST(CheckLayout, SaysWhichWidthsWouldAllowMore) {
  const LayoutWidths narrow{.layers = 2, .global_batch = 16};
  EXPECT_THAT(
      Refusal({.data = 8}, narrow, 8),
      ::testing::AllOf(HasSubstr("no layout of 8 processes is allowed"), HasSubstr("processes are 1, 2"),
                       HasSubstr("invariance.data_lanes = 4 or invariance.tensor_lanes = 4 (where heads")));
  // 6 samples cannot be cut into 4 or 8 lanes.
  const LayoutWidths odd{.layers = 2, .global_batch = 6};
  EXPECT_THAT(Refusal({.data = 8}, odd, 8), Not(HasSubstr("data_lanes = ")));
}

TEST(CheckLayout, DoesNotOverflow) {
  const int most = 1 << 30;
  const LayoutWidths huge{.data_lanes = most, .tensor_lanes = most, .layers = most, .global_batch = most};
  EXPECT_FALSE(CheckLayout({.data = most, .tensor = most, .pipeline = most, .chunks = 1}, huge, 4).ok());
  EXPECT_FALSE(CheckLayout({.data = most, .tensor = 1, .pipeline = most, .chunks = most}, huge, 4).ok());
}

}  // namespace
}  // namespace samestep
