// What src/parallel decides, as lines of text, for tests/python/scaling_test.py to compare bench/scaling/*.py
// with:
//
//   g++ -std=c++20 -Isrc bench/scaling/dump_layouts.cc
//       src/parallel/{layout,pipeline_schedule}.cc src/base/check.cc -lfmt -o dump_layouts
//
// Determinism: integers.
#include <cstdio>

#include "parallel/layout.h"
#include "parallel/pipeline_schedule.h"

namespace samestep {
namespace {

// "schedule PIPELINE CHUNKS RANK MICRO_BATCHES: f0.0 b0.0 ..."
void DumpSchedule(const Layout& layout, int rank, int64_t micro_batches) {
  std::printf("schedule %d %d %d %d:", layout.pipeline, layout.chunks, rank, static_cast<int>(micro_batches));
  for (const PipelineStep& step : ScheduleOf(layout, rank, micro_batches)) {
    std::printf(" %c%d.%d", step.forward ? 'f' : 'b', step.chunk, static_cast<int>(step.micro_batch));
  }
  std::printf("\n");
}

void DumpSchedules() {
  for (int pipeline : {1, 2, 3, 4, 8, 19}) {
    for (int chunks = 1; chunks <= (pipeline == 1 ? 1 : 3); ++chunks) {
      for (int groups = 1; groups <= 3; ++groups) {
        for (int rank = 0; rank < pipeline; ++rank)
          DumpSchedule({.pipeline = pipeline, .chunks = chunks}, rank, groups * pipeline);
      }
    }
    DumpSchedule({.pipeline = pipeline}, pipeline / 2, 5);
  }
}

// "layers PIPELINE CHUNKS RANK CHUNK LAYER HEAD: FIRST COUNT", of 12 layers
void DumpLayers() {
  for (int pipeline : {1, 2, 3, 4, 6}) {
    for (int chunks = 1; chunks <= (pipeline == 1 ? 1 : 2); ++chunks) {
      for (int64_t head : {0, 50, 385, 2000}) {
        for (int rank = 0; rank < pipeline; ++rank) {
          for (int chunk = 0; chunk < chunks; ++chunk) {
            const Range r = LayersOf({.pipeline = pipeline, .chunks = chunks}, rank, chunk, {12, 100, head});
            std::printf("layers %d %d %d %d %d: %d %d\n", pipeline, chunks, rank, chunk,
                        static_cast<int>(head), static_cast<int>(r.first), static_cast<int>(r.count));
          }
        }
      }
    }
  }
}

// "lanes DATA_LANES: DATA ..." of all that the widths allow
void DumpLanes() {
  for (int lanes : {1, 2, 6, 8, 19, 38, 152, 608, 2432}) {
    std::printf("lanes %d:", lanes);
    for (int data = 1; data <= lanes; ++data) {
      for (const Layout& layout : AllowedLayouts({.data_lanes = lanes, .global_batch = lanes}, data)) {
        if (layout.data == data) std::printf(" %d", data);
      }
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace samestep

int main() {
  samestep::DumpSchedules();
  samestep::DumpLayers();
  samestep::DumpLanes();
}
