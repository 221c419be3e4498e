// gemm_sizes-inl.h: how large a tile of the output is in registers. Reaches no result.
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_LINEAR_GEMM_SIZES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_LINEAR_GEMM_SIZES_INL_H_
#undef SAMESTEP_KERNELS_LINEAR_GEMM_SIZES_INL_H_
#else
#define SAMESTEP_KERNELS_LINEAR_GEMM_SIZES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

// The accumulators must fit the registers beside a row of the right panel and one broadcast: 32 of them with
// AVX-512 and NEON, else 16.
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
inline constexpr int kTileRows = 8, kTileVectors = 3;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTileRows = 6, kTileVectors = 2;
#else  // no fused multiply-add
inline constexpr int kTileRows = 4, kTileVectors = 2;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
