// recorder.h: the trace of a run, where the environment asks for one (SAMESTEP_TRACE).
//
//   RunRecorder recorder;
//   SAMESTEP_RETURN_IF_ERROR(recorder.Start(recipe, digest));
//   ... steps; SAMESTEP_RETURN_IF_ERROR(recorder.status()) after each ...
//   SAMESTEP_RETURN_IF_ERROR(recorder.Finish());
//
// Determinism: observing changes nothing; a traced run has the bits of an untraced one.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "recipe/recipe.h"
#include "trace/recorder.h"

namespace samestep {

class RunRecorder {
 public:
  RunRecorder() = default;
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;
  ~RunRecorder();
  // Each rank of `group` writes a trace of its own.
  Status Start(const Recipe& recipe, const std::string& recipe_digest, const Communicator& group);
  Status status() const { return recorder_ == nullptr ? Status() : recorder_->status(); }
  Status Finish();

 private:
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace samestep
