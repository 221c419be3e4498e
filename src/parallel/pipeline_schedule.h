// pipeline_schedule.h: in which order a pipeline rank runs its chunks over the micro-batches.
//
//   for (const PipelineStep& step : ScheduleOf({.pipeline = 4, .chunks = 2}, /*pipeline_rank=*/1, 8))
//     step.forward ? Forward(step.chunk, step.micro_batch) : Backward(step.chunk, step.micro_batch);
//
// One-forward-one-backward (chunks = 1) and its interleaved form (Narayanan et al., 2021, "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2).
//
// Determinism: backward passes of a chunk come in ascending micro-batch, as sums over tokens need.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/layout.h"

namespace samestep {

struct PipelineStep {
  bool forward = true;
  int chunk = 0;
  int64_t micro_batch = 0;
  bool operator==(const PipelineStep&) const = default;
};
std::vector<PipelineStep> ScheduleOf(const Layout& layout, int pipeline_rank, int64_t micro_batches);
// The most micro-batches of one chunk whose forward pass is done and whose backward pass is not.
int64_t MostInFlight(const std::vector<PipelineStep>& schedule, int chunk);

}  // namespace samestep
