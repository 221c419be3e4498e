#include "kernels/adamw/adamw_reference.h"

#include <bit>
#include <cmath>

#include "fingerprint/fingerprint.h"

namespace samestep {

AdamWScalars GetAdamWScalars(const Call& call) {
  return {.lr = call.Real("lr"),
          .clip = call.Real("clip"),
          .c1 = call.Real("c1"),
          .c2 = call.Real("c2"),
          .beta1 = call.Real("beta1"),
          .beta2 = call.Real("beta2"),
          .one_minus_beta1 = call.Real("one_minus_beta1"),
          .one_minus_beta2 = call.Real("one_minus_beta2"),
          .eps = call.Real("eps"),
          .weight_decay = call.Real("weight_decay")};
}

int64_t LogicalIndex(const TensorView& weights, int64_t i) {
  const int rank = weights.shape.rank();
  SAMESTEP_CHECK(rank == 1 || rank == 2);
  if (rank == 1) return weights.offsets[0] + i;
  const int64_t row = weights.offsets[0] + i / weights.shape[1];
  return row * weights.global_shape[1] + weights.offsets[1] + i % weights.shape[1];
}

void AdamWReference(const Call& call) {
  const AdamWScalars s = GetAdamWScalars(call);
  float* weights = call.view(0).f32();
  const float* gradient = call.view(1).f32();
  float *first = call.view(2).f32(), *second = call.view(3).f32();
  uint64_t sum_a = 0, sum_b = 0;
  for (int64_t i = 0; i < call.view(0).elements(); ++i) {
    const float g = gradient[i] * s.clip;
    const float m = std::fma(s.beta1, first[i], s.one_minus_beta1 * g);
    const float v = std::fma(s.beta2, second[i], (s.one_minus_beta2 * g) * g);
    const float u = (m * s.c1) / (std::sqrt(v * s.c2) + s.eps);
    const float w = std::fma(-s.lr, std::fma(s.weight_decay, weights[i], u), weights[i]);
    first[i] = m;
    second[i] = v;
    weights[i] = w;
    const auto at = static_cast<uint64_t>(LogicalIndex(call.view(0), i));
    const uint64_t word = std::bit_cast<uint32_t>(w), j = at % kFingerprintBlock;
    const uint64_t block = at / kFingerprintBlock;
    sum_a += word * ((SplitMix(j) & 0xFFFFFFFFu) | 1) * BlockKeyA(block);
    sum_b += word * ((SplitMix(j) >> 32) | 1) * BlockKeyB(block);
  }
  call.view(4).u64()[0] = sum_a;
  call.view(4).u64()[1] = sum_b;
}

}  // namespace samestep
