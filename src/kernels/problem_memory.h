// problem_memory.h: the arguments of a kernel's problem in memory of their own, filled, guarded, resettable.
//
//   ProblemMemory memory(*FindKernel("rms_norm.forward"), problem, {});
//   kernel.reference(memory.call());
//   std::vector<std::string> expected = memory.Bytes();    // a string an argument, guards included
//   memory.Reset();
//   kernel.fast(memory.call());
//
// For tests and benchmarks. Around each argument, and between its rows where they are padded, lie guard words
// that are NaN as floats and no token: a kernel that reads them spoils its result, and one that writes them
// is found by comparing bytes.
//
// Determinism: contents are a function of the kernel's name, the problem's label and the argument.
#pragma once

#include <string>
#include <vector>

#include "kernels/call.h"
#include "kernels/registry.h"

namespace samestep {

struct ProblemMemoryOptions {
  bool misaligned = false;  // each argument begins one element after an alignment of 64 bytes
  uint8_t poison = 0xFF;    // bytes of outputs before the call; 0xFF is NaN
};

class ProblemMemory {
 public:
  ProblemMemory(const Kernel& kernel, const Problem& problem, const ProblemMemoryOptions& options);

  const Call& call() const { return call_; }
  // All memory as it was before the first call.
  void Reset();
  // What each argument's memory holds now; "" for an absent one.
  std::vector<std::string> Bytes() const;
  // Where byte `offset` of an argument's memory lies: "element [1, 4]", or that it is a guard.
  std::string Locate(int argument, size_t offset) const;
  // Whether it is an element's, and not a guard's.
  bool IsElement(int argument, size_t offset) const;

 private:
  struct Memory {
    Tensor tensor;       // u32 words: guard, argument, guard
    size_t begin = 0;    // byte at which the view's data begins
    std::string before;  // bytes before the call
  };
  // The view's element that byte `offset` belongs to, or -1.
  int64_t ElementAt(int argument, size_t offset) const;

  Call call_;
  std::vector<Memory> memories_;
};

}  // namespace samestep
