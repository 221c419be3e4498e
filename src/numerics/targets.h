// targets.h: which instruction sets Samestep is compiled for. Before any Highway header:
//
//   #include "numerics/targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/rms_norm/rms_norm.cc"
//   #include "hwy/foreach_target.h"
//   #include "hwy/highway.h"
//   #include "numerics/fma-inl.h"
//
// A fallback without SIMD (Highway's EMU128, SCALAR with older GCC), SSE4, AVX2 and AVX3 (AVX-512) on x86,
// NEON on aarch64. More would cost compile time and give the same bits.
//
// Determinism: every target gives the same bits; which one runs is chosen in simd_target.h.
#pragma once

#ifdef HIGHWAY_HWY_DETECT_TARGETS_H_
#error "include numerics/targets.h before any Highway header"
#endif

// Expanded where Highway uses it, after the names below are defined.
#define HWY_DISABLED_TARGETS \
  (~(HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | HWY_NEON | SAMESTEP_NEON_WITHOUT_AES | HWY_EMU128 | HWY_SCALAR))

#include "hwy/detect_targets.h"

#ifdef HWY_NEON_WITHOUT_AES
#define SAMESTEP_NEON_WITHOUT_AES HWY_NEON_WITHOUT_AES
#else
#define SAMESTEP_NEON_WITHOUT_AES 0
#endif
