// sampling.h: the next token from logits.
//
//   int32_t token = SampleToken(logits, {.temperature = 0.8f, .top_k = 40, .seed = 1}, position);
//
// Determinism: the random word is addressed by seed and position; sums are row sums in the written order;
// ties go to the lower token. The same weights, prompt and options give the same text on every machine.
#pragma once

#include <cstdint>
#include <span>

namespace samestep {

struct SamplingOptions {
  float temperature = 0.8f;  // 0: the likeliest token
  int64_t top_k = 0;         // 0: all
  uint64_t seed = 0;
};

int32_t SampleToken(std::span<const float> logits, const SamplingOptions& options, int64_t position);

}  // namespace samestep
