// supervise.h: a training as a child process that is begun again when it dies.
//
//   Result<int> code = Supervise({"mpirun", "-n", "4", "samestep", "train", ...}, /*restarts=*/3, SIGUSR1,
//                                report);
//
// An MPI job whose rank dies is ended as a whole by its launcher, so nothing inside of it can go on: what
// restarts it stands outside. The command must resume by itself (`--resume`). A child that ends with an exit
// code that another try cannot change (0, 1: copies differ, 3: used wrongly, 4: not finite) is not begun
// again.
//
// Determinism: a resumed run has the bits of one that was never stopped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace samestep {

// SIGTERM and SIGINT reach the child as `stop_signal`, a second one as it is; then it is not begun again.
// `report` is told of each death. Returns the last child's exit code, 128 + the signal that ended it.
Result<int> Supervise(const std::vector<std::string>& command, int restarts, int stop_signal,
                      const std::function<void(const std::string&)>& report);

}  // namespace samestep
