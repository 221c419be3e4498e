// mpi_communicator.h: the communicator over MPI. Only the file behind it includes <mpi.h>; in a build without
// MPI, mpi_absent.cc stands in its place. Programs call comm/world.h instead.
//
//   SAMESTEP_RETURN_IF_ERROR(StartMpi());
//   std::unique_ptr<Communicator> world = MpiGroup(/*time_limit_s=*/600);
//   ...
//   EndMpi();                                   // every rank
//
// Waiting: everything is nonblocking, and one loop asks MPI whether it is done. It asks without a pause for a
// few microseconds, then yields the processor, then sleeps for growing times up to 0.2 ms: there may be more
// processes than cores. A wait over the time limit ends all processes with a message that names the peers;
// time in which this process itself was stopped does not count.
//
// Determinism: bytes and integers only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "comm/communicator.h"

namespace samestep {

// "Open MPI", "MPICH": what this program was built for; empty without MPI.
std::string MpiName();

Status StartMpi();
bool MpiRuns();
// All processes. After StartMpi.
std::unique_ptr<Communicator> MpiGroup(int64_t time_limit_s);
int RanksOnThisMachine();
// Communicators may outlive it, and are of no use then.
void EndMpi();
[[noreturn]] void AbortMpi(int exit_code);

}  // namespace samestep
