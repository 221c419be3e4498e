// members.h: whether the ranks that are about to train together are about to do the same.
//
//   SAMESTEP_RETURN_IF_ERROR(CompareFacts(group, {{"recipe digest", digest}, {"program", ProgramDigest()}}));
//
// Determinism: texts are compared.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"

namespace samestep {

struct MemberFact {
  std::string name, value;
};

// kUsage on every rank, naming the first fact in which a rank differs from rank 0, and both values (of texts
// of several lines, the first line that differs).
Status CompareFacts(Communicator& group, const std::vector<MemberFact>& facts);
// XXH3-128 of the executable file of this process.
std::string ProgramDigest();

}  // namespace samestep
