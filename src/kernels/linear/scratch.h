// scratch.h: memory for packed operands that stays with its thread between calls, since fresh pages cost
// more than packing itself.
//
//   thread_local ScratchBuffer buffer;
//   float* panel = buffer.Reserve(floats);   // at least so many; what was in it is lost
//
// Determinism: users write before they read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace samestep {

class ScratchBuffer {
 public:
  // 64-byte aligned; valid until the next Reserve of this buffer.
  float* Reserve(int64_t floats) {
    if (floats > reserved_) {
      memory_ = Tensor();
      memory_ = Tensor::Empty({floats});
      reserved_ = floats;
    }
    return memory_.f32();
  }

 private:
  Tensor memory_;
  int64_t reserved_ = 0;
};

}  // namespace samestep
