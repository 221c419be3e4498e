#include "parallel/layout.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace samestep {
namespace {

constexpr size_t kMostShown = 12;

// Whether `parts` ranks that share `lanes` in order each own one whole subtree of the balanced tree.
bool WholeSubtrees(int64_t lanes, int64_t parts) {
  if (parts == 1) return true;
  return lanes % parts == 0 && std::has_single_bit(static_cast<uint64_t>(lanes / parts));
}

// "1, 2, 4": the parts that divide the lanes into whole subtrees.
std::string AllowedParts(int64_t lanes) {
  std::string text = "1";
  for (int height = std::countr_zero(static_cast<uint64_t>(lanes)); height >= 0; --height) {
    if (const int64_t parts = lanes >> height; parts > 1) text += fmt::format(", {}", parts);
  }
  return text;
}

std::string LanesReason(const char* field, int value, const char* width, int64_t lanes) {
  if (lanes % value != 0) {
    return fmt::format("{} {} does not divide {} {} (of these, accepted are {})", field, value, width, lanes,
                       AllowedParts(lanes));
  }
  return fmt::format(
      "{} {} leaves each rank {} of {} {}, which is no power of two, so no whole subtree of the sum (of "
      "these, "
      "accepted are {})",
      field, value, lanes / value, width, lanes, AllowedParts(lanes));
}

std::string PipelineReason(const Layout& layout, const LayoutWidths& widths) {
  const int64_t stages = int64_t{layout.pipeline} * layout.chunks;
  if (layout.pipeline > widths.layers) {
    return fmt::format("layout.pipeline {} is more than model.layers {}", layout.pipeline, widths.layers);
  }
  if (stages > widths.layers) {
    return fmt::format("layout.pipeline {} * layout.chunks {} = {} is more than model.layers {}",
                       layout.pipeline, layout.chunks, stages, widths.layers);
  }
  if (layout.chunks == 1) return "";
  if (layout.pipeline == 1) {
    return fmt::format("layout.chunks {} needs a pipeline; layout.pipeline is 1", layout.chunks);
  }
  const int64_t samples = PartOf(widths.global_batch, layout.data, 0).count;
  const int64_t micro_batches = (samples + widths.micro_batch - 1) / widths.micro_batch;
  if (micro_batches % layout.pipeline == 0) return "";
  return fmt::format(
      "layout.chunks {} needs a multiple of layout.pipeline {} micro-batches, but {} samples a data rank in "
      "train.micro_batch {} make {}",
      layout.chunks, layout.pipeline, samples, widths.micro_batch, micro_batches);
}

// Why the widths forbid a layout; empty if they do not.
std::string ForbiddenBecause(const Layout& layout, const LayoutWidths& widths) {
  const std::pair<const char*, int> fields[] = {{"layout.data", layout.data},
                                                {"layout.tensor", layout.tensor},
                                                {"layout.pipeline", layout.pipeline},
                                                {"layout.chunks", layout.chunks}};
  for (const auto& [field, value] : fields) {
    if (value < 1) return fmt::format("{} is {}, and must be at least 1", field, value);
  }
  if (!WholeSubtrees(widths.data_lanes, layout.data)) {
    return LanesReason("layout.data", layout.data, "invariance.data_lanes", widths.data_lanes);
  }
  if (!WholeSubtrees(widths.tensor_lanes, layout.tensor)) {
    return LanesReason("layout.tensor", layout.tensor, "invariance.tensor_lanes", widths.tensor_lanes);
  }
  const int64_t token_lanes = int64_t{widths.context_lanes} * widths.tensor_lanes;
  if (!WholeSubtrees(token_lanes, layout.tensor)) {
    return LanesReason("layout.tensor", layout.tensor, "invariance.context_lanes * tensor_lanes",
                       token_lanes);
  }
  return PipelineReason(layout, widths);
}

std::vector<int> DivisorsOf(int value) {
  std::vector<int> divisors;
  for (int d = 1; d <= value; ++d) {
    if (value % d == 0) divisors.push_back(d);
  }
  return divisors;
}

std::string Listed(const std::vector<Layout>& layouts) {
  std::string text;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (i == kMostShown) return text + fmt::format("; and {} more", layouts.size() - i);
    text += (i > 0 ? "; " : "") + layouts[i].ToString();
  }
  return text;
}

// The least value of one width that would allow `ranks` processes, the others being as they are; 0: none.
int LeastWidth(LayoutWidths widths, int LayoutWidths::* width, int ranks) {
  for (int lanes : DivisorsOf(ranks)) {
    widths.*width = lanes;
    const bool fits = width != &LayoutWidths::data_lanes || widths.global_batch % lanes == 0;
    if (fits && !AllowedLayouts(widths, ranks).empty()) return lanes;
  }
  return 0;
}

// "1, 2, 4": the greatest numbers of processes below `ranks` that the widths allow, ascending.
std::string FewerRanks(const LayoutWidths& widths, int ranks) {
  std::vector<std::string> counts;
  for (int fewer = ranks - 1; fewer >= 1 && counts.size() < kMostShown; --fewer) {
    if (!AllowedLayouts(widths, fewer).empty()) counts.push_back(std::to_string(fewer));
  }
  std::reverse(counts.begin(), counts.end());
  return fmt::format("{}", fmt::join(counts, ", "));
}

std::string NoneAllowed(const LayoutWidths& widths, int ranks) {
  std::string text = fmt::format(
      "no layout of {} processes is allowed by invariance.data_lanes {}, tensor_lanes {}, context_lanes {} "
      "and "
      "model.layers {}; allowed numbers of processes are {}",
      ranks, widths.data_lanes, widths.tensor_lanes, widths.context_lanes, widths.layers,
      FewerRanks(widths, ranks));
  std::vector<std::string> mends;
  if (const int lanes = LeastWidth(widths, &LayoutWidths::data_lanes, ranks)) {
    mends.push_back(fmt::format("invariance.data_lanes = {}", lanes));
  }
  if (const int lanes = LeastWidth(widths, &LayoutWidths::tensor_lanes, ranks)) {
    mends.push_back(fmt::format(
        "invariance.tensor_lanes = {} (where heads, kv_heads and the other sizes divide by it)", lanes));
  }
  if (mends.empty()) return text;
  return text + fmt::format("; a new run (with other bits) may be given {}", fmt::join(mends, " or "));
}

std::string WhatIsAllowed(const LayoutWidths& widths, int ranks) {
  const std::vector<Layout> allowed = AllowedLayouts(widths, ranks);
  if (allowed.empty()) return NoneAllowed(widths, ranks);
  return fmt::format("allowed for {} process{}: {}", ranks, ranks == 1 ? "" : "es", Listed(allowed));
}

// The number of processes, without overflow for any fields.
bool MakesRanks(const Layout& layout, int ranks) {
  const int64_t two = int64_t{layout.data} * layout.tensor;
  return two <= ranks && two * layout.pipeline == ranks;
}

}  // namespace

std::string Layout::ToString() const {
  std::string text = fmt::format("data {} x tensor {} x pipeline {}", data, tensor, pipeline);
  if (chunks > 1) text += fmt::format(" with {} chunks", chunks);
  return text;
}

RankPlace PlaceOf(const Layout& layout, int rank) {
  SAMESTEP_CHECK(rank >= 0 && rank < layout.ranks());
  return {.data = rank / layout.tensor % layout.data,
          .tensor = rank % layout.tensor,
          .pipeline = rank / (layout.tensor * layout.data)};
}

int RankOf(const Layout& layout, const RankPlace& place) {
  SAMESTEP_CHECK(place.data >= 0 && place.data < layout.data);
  SAMESTEP_CHECK(place.tensor >= 0 && place.tensor < layout.tensor);
  SAMESTEP_CHECK(place.pipeline >= 0 && place.pipeline < layout.pipeline);
  return (place.pipeline * layout.data + place.data) * layout.tensor + place.tensor;
}

Status CheckLayout(const Layout& layout, const LayoutWidths& widths, int ranks) {
  SAMESTEP_CHECK_GE(ranks, 1);
  const std::string reason = ForbiddenBecause(layout, widths);
  if (!reason.empty()) return UsageError("{}; {}", reason, WhatIsAllowed(widths, ranks));
  if (MakesRanks(layout, ranks)) return {};
  return UsageError(
      "layout.data {} * layout.tensor {} * layout.pipeline {} is not the number of processes that were "
      "started, {}; {}",
      layout.data, layout.tensor, layout.pipeline, ranks, WhatIsAllowed(widths, ranks));
}

std::vector<Layout> AllowedLayouts(const LayoutWidths& widths, int ranks) {
  std::vector<Layout> layouts;
  for (int pipeline : DivisorsOf(ranks)) {
    for (int tensor : DivisorsOf(ranks / pipeline)) {
      for (int chunks = 1; chunks <= 2; ++chunks) {
        const Layout layout{
            .data = ranks / pipeline / tensor, .tensor = tensor, .pipeline = pipeline, .chunks = chunks};
        if (ForbiddenBecause(layout, widths).empty()) layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

Range PartOf(int64_t total, int parts, int index) {
  SAMESTEP_CHECK(total >= 0 && index >= 0 && index < parts);
  const int64_t least = total / parts, larger = total % parts;
  return {.first = index * least + std::min<int64_t>(index, larger),
          .count = least + (index < larger ? 1 : 0)};
}

Range SamplesOf(const Layout& layout, const RankPlace& place, int64_t global_batch) {
  return PartOf(global_batch, layout.data, place.data);
}

Range LayersOf(const Layout& layout, int pipeline_rank, int chunk, const LayerCosts& costs) {
  const int64_t chunks = int64_t{layout.pipeline} * layout.chunks;
  const int64_t index = int64_t{chunk} * layout.pipeline + pipeline_rank;
  SAMESTEP_CHECK(pipeline_rank >= 0 && pipeline_rank < layout.pipeline && chunk >= 0 &&
                 chunk < layout.chunks);
  SAMESTEP_CHECK_LE(chunks, costs.layers);
  const double total =
      static_cast<double>(costs.layers) * static_cast<double>(costs.layer) + static_cast<double>(costs.head);
  // Chunk k ends where the nearest whole layer to its share of the total does.
  const auto end_of = [&](int64_t k) {
    if (k == chunks - 1) return costs.layers;
    const double share = total * static_cast<double>(k + 1) / static_cast<double>(chunks);
    const auto nearest = static_cast<int64_t>(share / static_cast<double>(costs.layer) + 0.5);
    return std::clamp(nearest, k + 1, costs.layers - (chunks - 1 - k));
  };
  const int64_t first = index == 0 ? 0 : end_of(index - 1);
  return {first, end_of(index) - first};
}

}  // namespace samestep
