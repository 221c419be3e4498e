// data_memory.h: how many bytes the order of training samples takes (data/sample_order.h).
//
//   config.sample_order = SampleOrderBytes(TrainingDataOf(recipe));
//
// Determinism: a function of the options and, where they can be opened, the data's index files.
#pragma once

#include "data/sample_source.h"
#include "plan/count.h"

namespace samestep {

// Of each sample its place in the shuffled order, and all documents of all epochs that are needed. Where the
// data cannot be opened, one document a sample is assumed.
Count SampleOrderBytes(const DataOptions& options);

}  // namespace samestep
