#include "train/sampling.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "numerics/elementary.h"
#include "numerics/philox.h"

namespace samestep {

int32_t SampleToken(std::span<const float> logits, const SamplingOptions& options, int64_t position) {
  SAMESTEP_CHECK(!logits.empty());
  // Likeliest first, ties by token.
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.temperature == 0) return order.front();
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order.size())) {
    order.resize(static_cast<size_t>(options.top_k));
  }
  const float top = logits[static_cast<size_t>(order.front())];
  std::vector<float> cumulative;
  float sum = 0;
  for (int32_t token : order) {
    sum += ExpZ((logits[static_cast<size_t>(token)] - top) / options.temperature);
    cumulative.push_back(sum);
  }
  const uint32_t word =
      RandomWord(options.seed, static_cast<uint64_t>(position), 0, StreamId("sample", "generate"));
  const float target = static_cast<float>(word >> 8) * 0x1p-24f * sum;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), target);
  const size_t index = std::min(static_cast<size_t>(chosen - cumulative.begin()), order.size() - 1);
  return order[index];
}

}  // namespace samestep
