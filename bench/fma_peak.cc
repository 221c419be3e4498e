#include "fma_peak.h"

#include "numerics/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "numerics/fma-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

double RunChains(int64_t iterations) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, 0.999f), y = hn::Set(d, 0.001f);
  // Ten chains fit sixteen registers and cover the latency. They start apart, lest they be made one.
  auto a = hn::Set(d, 0.1f), b = hn::Set(d, 0.2f), c = hn::Set(d, 0.3f), e = hn::Set(d, 0.4f),
       f = hn::Set(d, 0.5f), g = hn::Set(d, 0.6f), h = hn::Set(d, 0.7f), i = hn::Set(d, 0.8f),
       j = hn::Set(d, 0.9f), k = y;
  for (int64_t n = 0; n < iterations; ++n) {
    a = ExactMulAdd(d, a, x, y);
    b = ExactMulAdd(d, b, x, y);
    c = ExactMulAdd(d, c, x, y);
    e = ExactMulAdd(d, e, x, y);
    f = ExactMulAdd(d, f, x, y);
    g = ExactMulAdd(d, g, x, y);
    h = ExactMulAdd(d, h, x, y);
    i = ExactMulAdd(d, i, x, y);
    j = ExactMulAdd(d, j, x, y);
    k = ExactMulAdd(d, k, x, y);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)),
                           hn::Add(hn::Add(hn::Add(f, g), hn::Add(h, i)), hn::Add(j, k)));
  const float used = hn::GetLane(sum);
  asm volatile("" : : "g"(used));
  return 20.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(iterations);
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {

HWY_EXPORT(RunChains);

double FmaFlops(int64_t iterations) { return HWY_DYNAMIC_DISPATCH(RunChains)(iterations); }

}  // namespace samestep
#endif  // HWY_ONCE
