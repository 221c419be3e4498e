#include "parallel/pipeline_schedule.h"

#include <algorithm>

#include "base/check.h"

namespace samestep {
namespace {

// Forward passes before the first backward pass: enough to fill the ranks behind this one, and with several
// chunks all earlier chunks of the first group as well.
int64_t WarmUp(const Layout& layout, int pipeline_rank, int64_t passes) {
  const int64_t behind = layout.pipeline - pipeline_rank - 1;
  const int64_t count =
      layout.chunks == 1 ? behind : behind * 2 + (layout.chunks - 1) * int64_t{layout.pipeline};
  return std::min(count, passes);
}

// Pass number k: groups of `pipeline` micro-batches go through one chunk after the other, backwards from the
// last chunk. With one chunk that is micro-batch k.
PipelineStep Pass(const Layout& layout, bool forward, int64_t k) {
  const int64_t group = int64_t{layout.pipeline} * layout.chunks;
  const int chunk = static_cast<int>(k % group / layout.pipeline);
  return {.forward = forward,
          .chunk = forward ? chunk : layout.chunks - 1 - chunk,
          .micro_batch = k / group * layout.pipeline + k % layout.pipeline};
}

}  // namespace

std::vector<PipelineStep> ScheduleOf(const Layout& layout, int pipeline_rank, int64_t micro_batches) {
  SAMESTEP_CHECK(pipeline_rank >= 0 && pipeline_rank < layout.pipeline);
  SAMESTEP_CHECK(micro_batches >= 1);
  SAMESTEP_CHECK(layout.chunks == 1 || micro_batches % layout.pipeline == 0);
  const int64_t passes = micro_batches * layout.chunks;
  const int64_t warm_up = WarmUp(layout, pipeline_rank, passes);
  std::vector<PipelineStep> steps;
  steps.reserve(static_cast<size_t>(2 * passes));
  for (int64_t k = 0; k < warm_up; ++k) steps.push_back(Pass(layout, true, k));
  for (int64_t k = 0; k < passes; ++k) {
    if (k + warm_up < passes) steps.push_back(Pass(layout, true, k + warm_up));
    steps.push_back(Pass(layout, false, k));
  }
  return steps;
}

int64_t MostInFlight(const std::vector<PipelineStep>& schedule, int chunk) {
  int64_t now = 0, most = 0;
  for (const PipelineStep& step : schedule) {
    if (step.chunk != chunk) continue;
    now += step.forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace samestep
