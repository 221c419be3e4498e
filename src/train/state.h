// state.h: all that a run continues from, by name.
//
//   SAMESTEP_RETURN_IF_ERROR(SaveState(root, trainer, identity));
//   SAMESTEP_RETURN_IF_ERROR(LoadState(folder, trainer, identity));
//
// Weights, both moments, step, consumed samples and the trajectory digest. There is no generator state:
// random numbers are addressed; and no loader state: the data position is the number of consumed samples.
//
// Determinism: a run that loads a state continues with the bits of the run that saved it.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "train/trainer.h"

namespace samestep {

// What a checkpoint must have been made with to be continued.
struct RunIdentity {
  std::string recipe_digest;
  std::string recipe;  // canonical text
  std::string data_digest;
};

// Every tensor that this rank continues from: its shards of the weights, the moments of its own rows.
std::vector<StateTensor> StateTensorsOf(Trainer& trainer);
// What it saves: of each element of the state one rank has it.
std::vector<StateTensor> OwnedStateOf(Trainer& trainer);
// Every rank calls these, and gets the same status.
Status SaveState(const std::string& root, Trainer& trainer, const RunIdentity& identity);
// Refuses a checkpoint of another recipe or other data, and a damaged one.
Status LoadState(const std::string& folder, Trainer& trainer, const RunIdentity& identity);

}  // namespace samestep
