// attention_scratch.h: memory that a thread keeps between calls of attention, so that none is allocated in
// loops.
//
//   Scratch own = Scratch::OfTask(2 * size);
//   float* tile = own.Take(size);
//
// Determinism: contents are left over from earlier calls; kernels write before they read.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace samestep {

class Scratch {
 public:
  // For one task. What is taken is aligned to 64 bytes.
  static Scratch OfTask(int64_t floats) {
    thread_local Tensor memory;
    return Scratch(memory, floats);
  }
  // For what the issuing thread lends to all tasks of a call.
  static Scratch OfCall(int64_t floats) {
    thread_local Tensor memory;
    return Scratch(memory, floats);
  }
  float* Take(int64_t floats) {
    float* const taken = next_;
    next_ += Padded(floats);
    SAMESTEP_CHECK_LE(next_ - begin_, size_);
    return taken;
  }
  static int64_t Padded(int64_t floats) { return (floats + 15) / 16 * 16; }

 private:
  Scratch(Tensor& memory, int64_t floats) {
    if (memory.empty() || memory.elements() < floats) {
      memory = Tensor();  // freed before the larger one is made
      memory = Tensor::Empty({floats});
    }
    begin_ = next_ = memory.f32();
    size_ = memory.elements();
  }
  float *begin_, *next_;
  int64_t size_;
};

}  // namespace samestep
