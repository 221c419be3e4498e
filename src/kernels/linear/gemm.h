// gemm.h: the matrix product under all three products of a linear layer, with the order of its sums written
// out as a list of steps.
//
//   GemmPlan plan{.rows = m, .columns = n, .left_layout = TermLayout::kContiguous, ...};
//   plan.planes = {{dst, n}};
//   for (k = 0; k < terms; k += 256) plan.steps.push_back({.left = {src + k, stride}, ..., .sets = k == 0});
//   RunGemm(plan);
//
// A step is one chain, of at most 256 terms, for each of the rows x columns elements. Its result sets a plane
// (the output, an accumulator, a scratch plane of a lane) or is added to it; then planes may be merged.
// Steps run in order for each element. Operands are packed into panels, tiles of the output are computed in
// registers; threads own disjoint stripes of the output.
//
// Determinism: the steps alone define every element; panels, tiles, stripes and threads do not.
#pragma once

#include <cstdint>
#include <vector>

namespace samestep {

// How the terms of one row of the left operand (of one column of the right one) lie in memory.
enum class TermLayout : uint8_t {
  kContiguous,  // term k of row r at data[r * stride + k]
  kStrided,     // term k of row r at data[k * stride + r]
};

struct GemmOperand {
  const float* data = nullptr;  // the step's first term of row (column) 0
  int64_t stride = 0;
};

struct GemmStep {
  GemmOperand left = {}, right = {};
  int64_t count = 0;  // terms, 0 to 256; without terms the chain is +0
  int plane = 0;      // which the chain goes to
  bool sets = true;   // the plane is set, not added to
  int merges = 0;     // then: plane p-1 = fl(plane p-1 + plane p) for p = plane, plane - 1, ... this often
};

struct GemmPlane {
  float* data = nullptr;
  int64_t stride = 0;
};

struct GemmPlan {
  int64_t rows = 0, columns = 0;
  TermLayout left_layout = TermLayout::kContiguous, right_layout = TermLayout::kContiguous;
  const float* bias = nullptr;         // [columns], added to plane 0 after the last step
  std::vector<GemmPlane> planes = {};  // in memory of the caller
  int scratch_planes = 0;              // numbered after these
  std::vector<GemmStep> steps = {};
};

void RunGemm(const GemmPlan& plan);

}  // namespace samestep
