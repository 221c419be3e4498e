#include "train/recorder.h"

#include "base/parallel_for.h"
#include "base/version.h"
#include "numerics/simd_target.h"

namespace samestep {

RunRecorder::~RunRecorder() {
  if (recorder_ != nullptr) CallContext::Current().RemoveObserver(recorder_.get());
}

Status RunRecorder::Start(const Recipe& recipe, const std::string& recipe_digest, const Communicator& group) {
  TraceHeader header;
  header.numerics = kNumericsProfile;
  header.recipe_digest = recipe_digest;
  header.software = {{"samestep", kVersion}, {"compiler", __VERSION__}};
  header.environment = {{"threads", std::to_string(ThreadCount())}, {"simd", CurrentSimdTarget()}};
  header.layout = {{"micro_batch", recipe.train.micro_batch},
                   {"data", recipe.layout.data},
                   {"tensor", recipe.layout.tensor},
                   {"pipeline", recipe.layout.pipeline},
                   {"chunks", recipe.layout.chunks}};
  header.rank = group.rank();
  header.ranks = group.size();
  SAMESTEP_ASSIGN_OR_RETURN(recorder_, MakeRecorder(header));
  if (recorder_ != nullptr) CallContext::Current().AddObserver(recorder_.get());
  return {};
}

Status RunRecorder::Finish() { return recorder_ == nullptr ? Status() : recorder_->Finish(); }

}  // namespace samestep
