#include "plan/data_memory.h"

#include <cmath>

namespace samestep {
namespace {

constexpr int64_t kIndexBytes = 4;  // of a document, and of a sample

Count WithoutData(Count samples) { return samples * (2 * kIndexBytes); }

// As SampleOrder::Make does.
Count OrderOf(const DataOptions& options, const std::string& prefix, int64_t samples) {
  const Result<MegatronDataset> data = MegatronDataset::Open(prefix);
  if (!data.ok()) return WithoutData(samples);
  const auto [first, last] = SplitBounds(options.split, data->sequences())[static_cast<size_t>(options.part)];
  Count tokens;
  for (int64_t i = first; i < last; ++i) tokens += data->length(i);
  if (tokens.value() == 0) return WithoutData(samples);
  const Count needed = Count(samples) * options.sequence_length + 1;
  if (needed.value() == Count::kMost) return Count::kMost;
  const int64_t epochs = (needed.value() - 1) / tokens.value() + 1;
  const Count all = tokens * epochs, documents = Count(last - first) * epochs;
  const Count built = (all.value() - 1) / options.sequence_length;
  // Running sums of lengths for every 64th document, in a vector that has doubled.
  return (built + documents) * kIndexBytes + documents.value() / 64 * 16;
}

}  // namespace

Count SampleOrderBytes(const DataOptions& options) {
  if (options.sources.size() == 1) return OrderOf(options, options.sources[0].prefix, options.samples);
  double sum = 0;
  for (const SourceOptions& source : options.sources) sum += source.weight;
  Count bytes = Count(options.samples) * 6;  // which source, and which of its samples
  for (const SourceOptions& source : options.sources) {
    const double share = std::ceil(static_cast<double>(options.samples) * source.weight / sum) * 1.005;
    bytes += OrderOf(options, source.prefix, static_cast<int64_t>(std::ceil(share)));
  }
  return bytes;
}

}  // namespace samestep
