// In place of mpi_sum.cc where MPI is not built in (CMake option SAMESTEP_MPI).
#include "faults/mpi_sum.h"

namespace samestep {

Status SumByMpi(const TensorView&, const TensorView&) {
  return UsageError("cannot strike: kind=mpi-sum needs a program that was built with MPI");
}

}  // namespace samestep
