// exchange.h: the moves of bytes between ranks that a training step needs, and the sums that follow them.
//
//   GatherTokens(tensor, mine, all);                       // [b, S/n, H] of each rank -> [b, S, H] on all
//   ReduceTokens(tensor, partial, parts, dst);             // partial [b, S, H] on each -> [b, S/n, H] summed
//   Pending p = StartSlices(data, local, parts, tag);      // row slices of a partial to their owners
//   Pending q = StartGatherRows(data, local, tag);         // and the updated slices back to all
//
// With one rank in the group nothing is moved: callers give the same memory for both sides.
//
// Determinism: bytes are moved; sums are kernel sum.tree over the ranks in their order, which is the order of
// lanes (numerics page 2).
#pragma once

#include "comm/communicator.h"
#include "parallel/layout.h"
#include "tensor/tensor.h"

namespace samestep {

// mine [b, t, H] is token slice `rank` of all [b, t * n, H]; both contiguous.
void GatherTokens(Communicator& group, const TensorView& mine, const TensorView& all);

// Memory for n partials of `dst`, one a rank, at the place that they have in the logical tensor.
TensorView PartsOf(const Tensor& memory, int n, const TensorView& dst);

// Slice r of each rank's partial [b, t * n, H] goes to rank r, which sums them by the tree: dst [b, t, H].
// `parts` holds at least [n, b, t, H].
void ReduceTokens(Communicator& group, const TensorView& partial, const Tensor& parts, const TensorView& dst);

// Rows PartOf(rows, n, r) of each rank's `local` [rows, ...] go to rank r: parts [n, own rows, ...].
Pending StartSlices(Communicator& group, const TensorView& local, const TensorView& parts, int tag);
// The opposite: each rank's own rows of `local` go to all others.
Pending StartGatherRows(Communicator& group, const TensorView& local, int tag);

// mine [..] of each rank -> all [n, ..] on every rank; small.
void GatherAll(Communicator& group, const TensorView& mine, const TensorView& all);

// Exact sums (kernels/exact_sum) of all ranks, in place.
void SumExact(Communicator& group, const TensorView& state);

}  // namespace samestep
