// replicas.h: whether ranks that computed the same thing computed the same bits, step by step.
//
//   ReplicaRecord record;
//   record.Add("model.norm.weight", fingerprint);
//   SAMESTEP_RETURN_IF_ERROR(CompareReplicas(grid, step, record));
//
// A tensor group's ranks update gains and some biases each for itself, and each sums the token losses. A
// processor that gets one bit wrong there is found in the same step. (A wrong bit in what only one rank
// computes reaches all of them alike: that is for `samestep diff` with another run.)
//
// Determinism: integers are compared.
#pragma once

#include <string>
#include <vector>

#include "fingerprint/digest.h"
#include "parallel/process_grid.h"

namespace samestep {

class ReplicaRecord {
 public:
  void Add(const std::string& name, const Fingerprint& value) { Add(name, Digest{value.a, value.b}); }
  void Add(const std::string& name, const Digest& value) { entries_.push_back({name, value}); }
  struct Entry {
    std::string name;
    Digest value;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// kDiverged, naming the first tensor and the ranks, on every rank of the training.
Status CompareReplicas(const ProcessGrid& grid, int64_t step, const ReplicaRecord& record);

}  // namespace samestep
