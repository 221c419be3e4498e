// sum_kernels.h: the implementations and problems that sum.cc registers.
//
// Determinism: see sum.h.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/registry.h"

namespace samestep {

// Lanes of a partial sum and their sum, as matrices of one size.
struct TreeArguments {
  explicit TreeArguments(const Call& call);
  const float* src;
  float* dst;
  int64_t lanes, lane_stride, rows, columns, src_stride, dst_stride;
};

void AddReference(const Call& call);
void AddFast(const Call& call);
std::vector<Problem> AddProblems();

void SumTreeReference(const Call& call);
void SumTreeFast(const Call& call);
std::vector<Problem> SumTreeProblems();

void AddBiasReference(const Call& call);
void AddBiasFast(const Call& call);
std::vector<Problem> AddBiasProblems();

}  // namespace samestep
