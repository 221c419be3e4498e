// adamw-inl.h: AdamW for the instruction set that is being compiled.
//
// Determinism: the bits of adamw_reference.cc.
#include "kernels/rows-inl.h"
#include "numerics/fma-inl.h"
#include "numerics/targets.h"
//
#include "hwy/highway.h"

#if defined(SAMESTEP_KERNELS_ADAMW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SAMESTEP_KERNELS_ADAMW_INL_H_
#undef SAMESTEP_KERNELS_ADAMW_INL_H_
#else
#define SAMESTEP_KERNELS_ADAMW_INL_H_
#endif

#include <algorithm>
#include <vector>

#include "fingerprint/fingerprint.h"
#include "kernels/adamw/adamw.h"
#include "kernels/adamw/adamw_reference.h"
#include "kernels/row_tasks.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void UpdateElements(float* HWY_RESTRICT weights, const float* HWY_RESTRICT gradient,
                               float* HWY_RESTRICT first, float* HWY_RESTRICT second, int64_t count,
                               const AdamWScalars& s) {
  ForElements(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, s.clip));
    const auto m = ExactMulAdd(d, hn::Set(d, s.beta1), hn::LoadU(d, first + i),
                               hn::Mul(hn::Set(d, s.one_minus_beta1), g));
    const auto v = ExactMulAdd(d, hn::Set(d, s.beta2), hn::LoadU(d, second + i),
                               hn::Mul(hn::Mul(hn::Set(d, s.one_minus_beta2), g), g));
    const auto root = hn::Sqrt(hn::Mul(v, hn::Set(d, s.c2)));
    const auto u = hn::Div(hn::Mul(m, hn::Set(d, s.c1)), hn::Add(root, hn::Set(d, s.eps)));
    const auto w = hn::LoadU(d, weights + i);
    const auto step = ExactMulAdd(d, hn::Set(d, s.weight_decay), w, u);
    hn::StoreU(ExactNegMulAdd(d, hn::Set(d, s.lr), step, w), d, weights + i);
    hn::StoreU(m, d, first + i);
    hn::StoreU(v, d, second + i);
  });
}

// The weights as runs of words, each consecutive in memory and in the logical tensor. Whole rows are one run.
struct WeightRuns {
  explicit WeightRuns(const TensorView& weights)
      : data(weights.f32()),
        length(weights.elements()),
        step(length),
        first(length == 0 ? 0 : LogicalIndex(weights, 0)) {
    if (weights.shape.rank() == 1 || weights.shape[1] == weights.global_shape[1]) return;
    length = weights.shape[1];
    step = weights.global_shape[1];
  }

  // Adds elements [begin, begin + count), in the order of memory.
  HWY_INLINE void AddTo(Fingerprint* sum, int64_t begin, int64_t count) const {
    while (count > 0) {
      const int64_t run = begin / length, within = begin - run * length;
      const int64_t n = std::min(count, length - within);
      AddWords(data + begin, static_cast<uint64_t>(first + run * step + within), static_cast<uint64_t>(n),
               sum);
      begin += n;
      count -= n;
    }
  }

  const float* data;
  int64_t length, step;  // of a run; from run to run in the logical tensor
  int64_t first;         // place of the first run in the logical tensor
};

void AdamWFast(const Call& call) {
  const AdamWScalars scalars = GetAdamWScalars(call);
  const int64_t count = call.view(0).elements();
  float* weights = call.view(0).f32();
  const WeightRuns runs(call.view(0));
  const float* gradient = call.view(1).f32();
  float *first = call.view(2).f32(), *second = call.view(3).f32();
  constexpr int64_t kBlock = kFingerprintBlock, kTask = kElementsOfATask / kBlock * kBlock;
  const int64_t tasks = (count + kTask - 1) / kTask;
  std::vector<Fingerprint> sums(static_cast<size_t>(tasks));
  ParallelFor(tasks, [&](int64_t task) HWY_ATTR {
    Fingerprint sum;
    // A block's weights are fingerprinted while they are in the first cache.
    for (int64_t i = task * kTask; i < std::min(count, (task + 1) * kTask); i += kBlock) {
      const int64_t n = std::min(kBlock, count - i);
      UpdateElements(weights + i, gradient + i, first + i, second + i, n, scalars);
      runs.AddTo(&sum, i, n);
    }
    sums[task] = sum;
  });
  Fingerprint total;
  for (const Fingerprint& sum : sums) total += sum;
  call.view(4).u64()[0] = total.a;
  call.view(4).u64()[1] = total.b;
}

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
