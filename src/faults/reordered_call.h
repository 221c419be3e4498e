// reordered_call.h: the same call on copies of its arguments whose summed dimension runs another way.
//
//   if (CanReorder(call.kernel())) {
//     ReorderedCall other(call);     // before the call itself, whose accumulators are copied too
//     other.Execute();
//     other.CopyRow(output, row, call.view(output));
//   }
//
// Terms are reversed inside the blocks of the written order (256 features or tokens, or one head), so that
// the result is the same in exact arithmetic and rounded otherwise: what a changed kernel would do.
//
// Determinism: the copies are a function of the call.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/registry.h"

namespace samestep {

// Whether a table says which dimensions of this kernel's arguments are summed over.
bool CanReorder(const Kernel& kernel);

class ReorderedCall {
 public:
  explicit ReorderedCall(const Call& call);
  void Execute() const;
  // Row `row` of an output, in the original order of its elements.
  void CopyRow(int argument, int64_t row, const TensorView& to) const;

 private:
  std::vector<Tensor> copies_;
  std::vector<std::vector<int64_t>> columns_;  // column i of a copy is this one of the argument
  Call call_;
};

}  // namespace samestep
