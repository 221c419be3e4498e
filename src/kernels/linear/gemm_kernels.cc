#include "kernels/linear/gemm_kernels.h"

#include "numerics/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/gemm_kernels.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kernels/linear/gemm_pack-inl.h"
#include "kernels/linear/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

const GemmKernels* Kernels() {
  static constexpr GemmKernels kKernels = {
      .rows = kTileRows,
      .lanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<float>())),
      .vectors = kTileVectors,
      .pack = Pack,
      .tile = Tile,
      .merge = Merge,
  };
  return &kKernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {

HWY_EXPORT(Kernels);

const GemmKernels& CurrentGemmKernels() { return *HWY_DYNAMIC_DISPATCH(Kernels)(); }

}  // namespace samestep
#endif  // HWY_ONCE
