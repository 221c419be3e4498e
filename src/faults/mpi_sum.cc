#include "faults/mpi_sum.h"

#include <mpi.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "comm/mpi_communicator.h"

namespace samestep {
namespace {

std::vector<int> StartsOf(const std::vector<int>& counts) {
  std::vector<int> starts(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, starts.begin() + 1);
  return starts;
}

// Rows of a view one after another.
std::vector<float> Packed(const TensorView& view) {
  std::vector<float> values;
  for (int64_t row = 0; row < view.rows(); ++row) {
    const float* begin = view.f32() + row * view.row_stride();
    values.insert(values.end(), begin, begin + view.columns());
  }
  return values;
}

void Unpack(const std::vector<float>& values, const TensorView& view) {
  const int64_t columns = view.columns();
  for (int64_t row = 0; row < view.rows(); ++row) {
    std::memcpy(view.f32() + row * view.row_stride(), values.data() + row * columns,
                static_cast<size_t>(columns) * sizeof(float));
  }
}

}  // namespace

Status SumByMpi(const TensorView& parts, const TensorView& dst) {
  int ranks = 1;
  if (MpiRuns()) MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1 || parts.shape[0] != ranks) {
    return UsageError(
        "cannot strike: kind=mpi-sum needs a sum of one part of each rank, but here are {} ranks and {} "
        "parts; "
        "use a layout with data ranks only",
        ranks, parts.shape[0]);
  }
  const size_t n = static_cast<size_t>(ranks);
  const int own = static_cast<int>(dst.elements());
  std::vector<int> counts(n);  // of each rank's slice
  MPI_Allgather(&own, 1, MPI_INT, counts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  const std::vector<int> starts = StartsOf(counts), sent(n, own), sent_starts = StartsOf(sent);
  std::vector<float> mine;
  for (int64_t r = 0; r < ranks; ++r) {
    // One part has its own first dimension of 1 left: packed rows are the same.
    const std::vector<float> part = Packed(parts.Slice(r, 1));
    mine.insert(mine.end(), part.begin(), part.end());
  }
  std::vector<float> partial(static_cast<size_t>(starts.back() + counts.back())),
      sum(static_cast<size_t>(own));
  MPI_Alltoallv(mine.data(), sent.data(), sent_starts.data(), MPI_FLOAT, partial.data(), counts.data(),
                starts.data(), MPI_FLOAT, MPI_COMM_WORLD);
  MPI_Reduce_scatter(partial.data(), sum.data(), counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  Unpack(sum, dst);
  return {};
}

}  // namespace samestep
