// In place of mpi_communicator.cc where MPI is not built in (CMake option SAMESTEP_MPI).
#include "base/check.h"
#include "comm/mpi_communicator.h"

namespace samestep {

std::string MpiName() { return ""; }
Status StartMpi() {
  return UsageError(
      "this program was built without MPI and runs as one process only; configure it with -DSAMESTEP_MPI=ON");
}
bool MpiRuns() { return false; }
std::unique_ptr<Communicator> MpiGroup(int64_t) {
  SAMESTEP_CHECK(MpiRuns());
  return nullptr;
}
int RanksOnThisMachine() { return 1; }
void EndMpi() {}
void AbortMpi(int) {
  SAMESTEP_CHECK(MpiRuns());
  __builtin_unreachable();
}

}  // namespace samestep
