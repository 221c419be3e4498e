// layout.h: how a training is spread over processes, and what the promised widths allow.
//
//   Layout layout{.data = 2, .tensor = 2, .pipeline = 1};
//   SAMESTEP_RETURN_IF_ERROR(CheckLayout(layout, widths, group.size()));
//   RankPlace place = PlaceOf(layout, group.rank());       // tensor fastest, then data, then pipeline
//   Range samples = SamplesOf(layout, place, global_batch);
//
// A layout is allowed if each rank owns whole subtrees of every sum (numerics page 1.1): then no bit depends
// on it.
//
// Determinism: integers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace samestep {

struct Layout {
  int data = 1, tensor = 1, pipeline = 1;
  int chunks = 1;  // model chunks a pipeline rank holds; more than 1: the interleaved schedule
  int ranks() const { return data * tensor * pipeline; }
  bool operator==(const Layout&) const = default;
  std::string ToString() const;  // "data 2 x tensor 2 x pipeline 1"; with chunks where there are several
};

struct RankPlace {
  int data = 0, tensor = 0, pipeline = 0;
};
RankPlace PlaceOf(const Layout& layout, int rank);
int RankOf(const Layout& layout, const RankPlace& place);

// What a layout depends on.
struct LayoutWidths {
  int data_lanes = 1, tensor_lanes = 1, context_lanes = 1;
  int64_t layers = 1, global_batch = 1, micro_batch = 1;
};
// kUsage, with the reason and the allowed layouts of as many ranks.
Status CheckLayout(const Layout& layout, const LayoutWidths& widths, int ranks);
// All allowed layouts of so many ranks; with one chunk, and with two where those are possible.
std::vector<Layout> AllowedLayouts(const LayoutWidths& widths, int ranks);

struct Range {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const Range&) const = default;
};
// Part `index` of `parts` of [0, total); sizes differ by at most one, the larger ones first.
Range PartOf(int64_t total, int parts, int index);
// Samples of the global batch that a data rank works on.
Range SamplesOf(const Layout& layout, const RankPlace& place, int64_t global_batch);
// What the chunks of a pipeline are balanced by: the costs, in any one unit, of a layer and of the output
// head, which comes after the last and with a large vocabulary costs as much as several layers.
struct LayerCosts {
  int64_t layers = 1, layer = 1, head = 0;
};
// Layers of a chunk (0 to chunks - 1) of a pipeline rank: at least one, and costs as even as whole layers
// allow.
Range LayersOf(const Layout& layout, int pipeline_rank, int chunk, const LayerCosts& costs);

}  // namespace samestep
