// gemm_kernels.h: the inner parts of the matrix product, compiled for each instruction set.
//
//   const GemmKernels& kernels = CurrentGemmKernels();
//   kernels.pack({...}, panel);
//   kernels.tile({...});
//
// A panel of the left operand holds `rows` rows, term by term: panel[k * rows + r]. A panel of the right
// operand holds up to `vectors` vectors of `lanes` columns: panel[k * width + c]. The padding
// of a panel is arbitrary; what is computed from it is dropped.
//
// Determinism: a tile's elements are chains over ascending k, each in a lane of its own.
#pragma once

#include <cstdint>

#include "kernels/linear/gemm.h"

namespace samestep {

struct PackTask {
  GemmOperand source;
  TermLayout layout = TermLayout::kContiguous;
  int64_t count = 0;            // terms
  int64_t used = 0, width = 0;  // rows (columns) that are there, and with padding
};

struct TileTask {
  const float* left = nullptr;   // panels
  const float* right = nullptr;  // 64-byte aligned
  int64_t count = 0;
  int64_t rows = 0, columns = 0;  // of the output
  float* output = nullptr;
  int64_t stride = 0;
  bool sets = true;
  const float* bias = nullptr;  // added at last; may be absent
};

// output = fl(output + addend), then + bias if there is one.
struct MergeTask {
  float* output = nullptr;
  int64_t stride = 0;
  const float* addend = nullptr;
  int64_t addend_stride = 0;
  int64_t rows = 0, columns = 0;
  const float* bias = nullptr;
};

struct GemmKernels {
  int64_t rows, lanes, vectors;
  void (*pack)(const PackTask& task, float* panel);
  void (*tile)(const TileTask& task);
  void (*merge)(const MergeTask& task);
};

const GemmKernels& CurrentGemmKernels();

}  // namespace samestep
