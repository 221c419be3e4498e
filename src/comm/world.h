// world.h: who this process runs with, if it was started by an MPI launcher.
//
//   SAMESTEP_ASSIGN_OR_RETURN(World world, World::Join());
//   world.group()                                  // OneProcess() if there is no launcher
//   SAMESTEP_RETURN_IF_ERROR(Agree(world.group(), status));     // all go on, or none
//   world.Leave();
//
// MPI is asked for its ranks only where a launcher's variables say that there are others, so that a program
// alone starts without it. What MPI answers must be what they say:
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   Hydra      PMI_RANK, PMI_SIZE (MPICH; Slurm's PMI-2 sets them too)
//   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS; not looked at below mpirun, where they describe the step
//              that started mpirun's own daemons
//   torchrun   RANK, WORLD_SIZE; alone they are refused, since they start no MPI
//
// SAMESTEP_TIMEOUT: seconds after which a wait for a silent peer ends all processes (default 600).
//
// Determinism: ranks are MPI's; the environment decides nothing but whether MPI is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"

namespace samestep {

// What the launchers' variables say about this process.
struct LauncherView {
  std::string name;  // "Open MPI", "Hydra", "Slurm", "torchrun"
  int64_t rank = 0, ranks = 1;
};
// In the order of the table above; those whose variables are missing or no numbers are left out.
std::vector<LauncherView> LaunchersInEnvironment();
// Whether they say that this process was started as a rank, so that MPI has to be asked; kUsage where MPI
// cannot know of the other ranks.
Result<bool> NeedsMpi(const std::vector<LauncherView>& launchers);
// kUsage unless all of them say what MPI says. `mpi.name`: what the program was built for.
Status CheckLaunchers(const std::vector<LauncherView>& launchers, const LauncherView& mpi);
// SAMESTEP_TIMEOUT in seconds, or the default; kUsage if it is no whole number above zero.
Result<int64_t> TimeLimitInEnvironment();

class World {
 public:
  // A failure that MPI could tell all ranks about is returned on rank 0, to be printed once; the others end
  // with its exit code.
  static Result<World> Join();
  World(World&&) = default;
  World& operator=(World&&) = default;

  Communicator& group() const { return *group_; }
  bool alone() const { return group_->size() == 1; }
  int ranks_on_this_machine() const { return ranks_on_this_machine_; }
  // Ends the use of MPI in an orderly way; every rank must call it. Groups are of no use afterwards.
  void Leave();

 private:
  World() = default;
  std::unique_ptr<Communicator> group_;
  int ranks_on_this_machine_ = 1;
  bool uses_mpi_ = false;
};

// The same status on every rank: ok if all are; else that of the lowest rank that failed, which it names
// ("rank 2: ...") unless all ranks failed alike.
Status Agree(Communicator& group, const Status& mine);
// For a failure that the others cannot know of: says it on the terminal and ends all processes.
[[noreturn]] void EndAll(const Communicator& group, const Status& status);

}  // namespace samestep
