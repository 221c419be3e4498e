// elementary_arrays.h: the vector forms of the elementary functions over arrays.
//
//   ApplyElementary(Elementary::kExp, in, out, count);     // out[i] = Exp(in[i])
//
// Kernels use elementary-inl.h itself; this serves tests, benchmarks and callers outside SIMD code.
//
// Determinism: the bits of the scalar functions on every target.
#pragma once

#include <cstdint>

namespace samestep {

enum class Elementary {
  kExp,
  kExp2,
  kLog,
  kTanh,
  kErf,
  kExpZ,
  kSigmoid,
  kSilu,
  kGelu,
  kGeluDerivative,
  kGeluTanh,
  kGeluTanhDerivative,
};

// On the SIMD target in use. `out` may be `in`.
void ApplyElementary(Elementary function, const float* in, float* out, int64_t count);

}  // namespace samestep
