// mpi_sum.h: what samestep never does: floats summed over ranks by MPI itself. For planted faults only.
//
//   Status s = SumByMpi(parts, dst);     // parts [ranks, ...] -> dst [...], in the place of SumTree(parts,
//   dst)
//
// Every rank of the job has to call it for the same sum, and hold a part of each rank: layouts that have
// data ranks only, and a parameter with at least as many rows. The parts go back to the ranks that they came
// from, and MPI's reduction makes the sum of them.
//
// Determinism: none, which is the point: the order of the sum is MPI's.
#pragma once

#include "base/status.h"
#include "tensor/tensor.h"

namespace samestep {

// kUsage where the job's ranks are not those of the sum; dst is as it was then.
Status SumByMpi(const TensorView& parts, const TensorView& dst);

}  // namespace samestep
