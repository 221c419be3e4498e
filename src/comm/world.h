// world.h: who this process runs with, if it was started by an MPI launcher.
//
//   SAMESTEP_ASSIGN_OR_RETURN(World world, World::Join());
//   world.group()                                  // OneProcess() if there is no launcher
//   SAMESTEP_RETURN_IF_ERROR(Agree(world.group(), status));     // all go on, or none
//   return world.Leave(exit_code);
//
// MPI is asked for its ranks only where a launcher's variables (Open MPI, Hydra, Slurm, torchrun) say that
// there are others, so that a program alone starts without it. What MPI answers must be what they say.
//
// Determinism: ranks are MPI's; the environment decides nothing but whether MPI is used.
#pragma once

#include <memory>

#include "base/status.h"
#include "comm/communicator.h"

namespace samestep {

// What the launchers' variables say about this process.
struct LauncherView {
  std::string name;  // "Open MPI", "Hydra", "Slurm", "torchrun"
  int64_t rank = 0, ranks = 1;
};
std::vector<LauncherView> LaunchersInEnvironment();

class World {
 public:
  static Result<World> Join();
  World(World&&) = default;
  World& operator=(World&&) = default;

  Communicator& group() const { return *group_; }
  bool alone() const { return group_->size() == 1; }
  int ranks_on_this_machine() const { return ranks_on_this_machine_; }
  // Ends the use of MPI in an orderly way; every rank must call it.
  void Leave();

 private:
  World() = default;
  std::unique_ptr<Communicator> group_;
  int ranks_on_this_machine_ = 1;
  bool uses_mpi_ = false;
};

// The same status on every rank: ok if all are; else that of the lowest rank that failed, which it names.
Status Agree(Communicator& group, const Status& mine);
// For a failure that the others cannot know of: says it on the terminal and ends all processes.
[[noreturn]] void EndAll(const Communicator& group, const Status& status);

}  // namespace samestep
