#include "parallel/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace samestep {
namespace {

struct Shape {
  int pipeline, chunks;
  int64_t micro_batches;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (int pipeline = 1; pipeline <= 4; ++pipeline) {
    for (int chunks = 1; chunks <= (pipeline == 1 ? 1 : 3); ++chunks) {
      for (int64_t m = 1; m <= 20; ++m) {
        if (chunks == 1 || m % pipeline == 0) shapes.push_back({pipeline, chunks, m});
      }
    }
  }
  return shapes;
}

std::vector<std::vector<PipelineStep>> AllRanks(const Shape& shape) {
  std::vector<std::vector<PipelineStep>> schedules;
  const Layout layout{.pipeline = shape.pipeline, .chunks = shape.chunks};
  for (int p = 0; p < shape.pipeline; ++p) schedules.push_back(ScheduleOf(layout, p, shape.micro_batches));
  return schedules;
}

TEST(PipelineSchedule, EachPassOnceForwardBeforeBackwardAscending) {
  for (const Shape& shape : Shapes()) {
    for (const std::vector<PipelineStep>& schedule : AllRanks(shape)) {
      std::set<std::pair<int, int64_t>> forward, backward;
      std::vector<int64_t> next(static_cast<size_t>(shape.chunks), 0);
      for (const PipelineStep& step : schedule) {
        ASSERT_TRUE(step.chunk >= 0 && step.chunk < shape.chunks);
        ASSERT_TRUE(step.micro_batch >= 0 && step.micro_batch < shape.micro_batches);
        const std::pair<int, int64_t> pass{step.chunk, step.micro_batch};
        if (step.forward) {
          EXPECT_TRUE(forward.insert(pass).second);
        } else {
          EXPECT_TRUE(forward.contains(pass));
          EXPECT_TRUE(backward.insert(pass).second);
          EXPECT_EQ(step.micro_batch, next[static_cast<size_t>(step.chunk)]++);
        }
      }
      EXPECT_EQ(static_cast<int64_t>(forward.size()), shape.chunks * shape.micro_batches);
      EXPECT_EQ(forward, backward);
    }
  }
}

// Runs all ranks with each step waiting for its neighbour's data. How many steps could not run.
int64_t StuckSteps(const Shape& shape, const std::vector<std::vector<PipelineStep>>& schedules) {
  std::set<std::tuple<bool, int, int64_t>> done;  // forward, stage, micro-batch
  std::vector<size_t> at(schedules.size(), 0);
  const int last = shape.pipeline * shape.chunks - 1;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t p = 0; p < schedules.size(); ++p) {
      for (; at[p] < schedules[p].size(); ++at[p], moved = true) {
        const PipelineStep& step = schedules[p][at[p]];
        const int stage = step.chunk * shape.pipeline + static_cast<int>(p);
        const bool first = step.forward ? stage == 0 : stage == last;
        const int before = step.forward ? stage - 1 : stage + 1;
        if (!first && !done.contains({step.forward, before, step.micro_batch})) break;
        done.insert({step.forward, stage, step.micro_batch});
      }
    }
  }
  int64_t stuck = 0;
  for (size_t p = 0; p < schedules.size(); ++p) stuck += static_cast<int64_t>(schedules[p].size() - at[p]);
  return stuck;
}

TEST(PipelineSchedule, NoRankWaitsForever) {
  for (const Shape& shape : Shapes()) {
    EXPECT_EQ(StuckSteps(shape, AllRanks(shape)), 0)
        << shape.pipeline << " ranks, " << shape.chunks << " chunks, " << shape.micro_batches
        << " micro-batches";
  }
}

TEST(PipelineSchedule, TheSimulationFindsADeadlock) {
  const Shape shape{2, 1, 4};
  std::vector<std::vector<PipelineStep>> schedules = AllRanks(shape);
  std::swap(schedules[0][1],
            schedules[0][2]);  // its first backward pass before the second forward pass: harmless
  EXPECT_EQ(StuckSteps(shape, schedules), 0);
  std::reverse(schedules[0].begin(), schedules[0].end());
  EXPECT_GT(StuckSteps(shape, schedules), 0);
}

TEST(PipelineSchedule, OneForwardOneBackwardBoundsMemory) {
  for (const Shape& shape : Shapes()) {
    if (shape.chunks != 1) continue;
    const std::vector<std::vector<PipelineStep>> schedules = AllRanks(shape);
    for (int p = 0; p < shape.pipeline; ++p) {
      EXPECT_EQ(MostInFlight(schedules[static_cast<size_t>(p)], 0),
                std::min<int64_t>(shape.pipeline - p, shape.micro_batches));
    }
  }
}

// Units of time until all are done, where a forward pass takes 1 and a backward pass 2.
int64_t TimeOf(const Shape& shape) {
  const std::vector<std::vector<PipelineStep>> schedules = AllRanks(shape);
  std::vector<std::tuple<bool, int, int64_t, int64_t>> done;  // and when
  std::vector<size_t> at(schedules.size(), 0);
  std::vector<int64_t> now(schedules.size(), 0);
  const int last = shape.pipeline * shape.chunks - 1;
  const auto ready = [&](bool forward, int stage, int64_t micro_batch) -> int64_t {
    for (const auto& [f, s, m, when] : done) {
      if (f == forward && s == stage && m == micro_batch) return when;
    }
    return -1;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t p = 0; p < schedules.size(); ++p) {
      for (; at[p] < schedules[p].size(); ++at[p], moved = true) {
        const PipelineStep& step = schedules[p][at[p]];
        const int stage = step.chunk * shape.pipeline + static_cast<int>(p);
        const bool first = step.forward ? stage == 0 : stage == last;
        const int64_t when =
            first ? 0 : ready(step.forward, stage + (step.forward ? -1 : 1), step.micro_batch);
        if (when < 0) break;
        now[p] = std::max(now[p], when) + (step.forward ? 1 : 2);
        done.emplace_back(step.forward, stage, step.micro_batch, now[p]);
      }
    }
  }
  return *std::max_element(now.begin(), now.end());
}

// The bubble of the paper: (pipeline - 1) passes of one chunk, forward and backward.
TEST(PipelineSchedule, BubbleIsThePapers) {
  for (int pipeline = 2; pipeline <= 4; ++pipeline) {
    for (int chunks = 1; chunks <= 3; ++chunks) {
      const int64_t m = 4 * pipeline;
      EXPECT_EQ(TimeOf({pipeline, chunks, m}), 3 * (m * chunks + pipeline - 1))
          << pipeline << " x " << chunks;
    }
  }
}

}  // namespace
}  // namespace samestep
