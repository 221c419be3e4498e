// run.h: a run in its folder: the loop around the trainer with its data, checkpoints, metrics and signals.
//
//   RunOptions options{.recipe = recipe, .folder = "runs/a", .resume = true};
//   SAMESTEP_ASSIGN_OR_RETURN(RunResult result, RunTraining(options, reporter));
//
// The folder holds recipe.toml (canonical), metrics.jsonl, tensorboard/, checkpoints/ and a lock.
//
// On several ranks every rank calls RunTraining with its place in the group, and all get the same result.
// Rank 0 keeps the folder; checkpoints are written by all.
//
// Determinism: what is written to metrics and checkpoints depends on the recipe and the data only (times of
// day are in TensorBoard's files, which have no other choice); the clock reaches the terminal and nothing
// else.
#pragma once

#include <csignal>
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "recipe/recipe.h"
#include "train/trainer.h"

namespace samestep {

struct RunOptions {
  Recipe recipe;
  std::string folder;
  Communicator* group = nullptr;  // the ranks that train together; null: this process alone
  int ranks_on_this_machine = 1;  // of the group
  bool mixed_programs = false;    // ranks may run different builds (of the same version)
  bool resume = false;
  std::string from;  // a checkpoint folder to resume from; empty: the newest
  bool tensorboard = true;
  int64_t stop_after = 0;  // save and return after this step; 0: at the recipe's last
  const volatile std::sig_atomic_t* stop = nullptr;  // becomes 1: save and return after the step
};

struct RunResult {
  int64_t step = 0;       // last step done
  Digest digest;          // of the trajectory
  double loss = 0;        // of the last step done here
  double evaluation = 0;  // of the last evaluation; 0: none
  bool stopped = false;   // by a signal or stop_after, before the recipe's last step
  int64_t resumed_at = 0;
};

// Told about events, to show them.
class RunReporter {
 public:
  virtual ~RunReporter() = default;
  // `resumed_at` is 0 for a run from the beginning.
  virtual void OnStart(const Trainer& /*trainer*/, int64_t /*resumed_at*/) {}
  virtual void OnStep(const StepReport& /*report*/, double /*tokens_per_second*/) {}
  virtual void OnEvaluation(int64_t /*step*/, double /*loss*/, const Digest& /*digest*/) {}
  virtual void OnCheckpoint(int64_t /*step*/, const std::string& /*folder*/) {}
  virtual void OnWarning(const std::string& /*text*/) {}
};

Result<RunResult> RunTraining(const RunOptions& options, RunReporter& reporter);

std::string CheckpointsFolder(const std::string& run_folder);
std::string RecipeFile(const std::string& run_folder);

}  // namespace samestep
