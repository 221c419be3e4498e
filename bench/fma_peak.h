// fma_peak.h: the most that one thread can do with fused multiply-adds in registers.
//
//   double gflops = FmaFlops(iterations) / seconds * 1e-9;
//
// Determinism: a stopwatch's companion; nothing that is promised.
#pragma once

#include <cstdint>

namespace samestep {

// Runs independent chains of multiply-adds in the current SIMD target; returns the operations done.
double FmaFlops(int64_t iterations);

}  // namespace samestep
