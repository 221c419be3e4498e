#include "data/sample_source.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace samestep {
namespace {

const char* SplitName(DataSplit part) {
  constexpr const char* kNames[] = {"training", "validation", "test"};
  return kNames[static_cast<int>(part)];
}

Status CheckOptions(const DataOptions& options) {
  if (options.sources.empty()) return UsageError("no data set is named; set data.sources");
  if (options.sources.size() >= 32767) {
    return UsageError("{} data sets are named; a blend holds up to 32766", options.sources.size());
  }
  if (options.seed > std::numeric_limits<uint32_t>::max()) {
    return UsageError("the data seed is {}; the sample order takes seeds up to 4294967295", options.seed);
  }
  if (options.sequence_length < 1 || options.sequence_length > std::numeric_limits<int32_t>::max() - 1) {
    return UsageError("the sequence length is {}; it must be positive", options.sequence_length);
  }
  if (options.vocab_size < 1)
    return UsageError("the vocabulary size is {}; it must be positive", options.vocab_size);
  if (options.samples < 0) return UsageError("{} samples are asked for", options.samples);
  double sum = 0;
  for (const double weight : options.split) {
    if (!(weight >= 0)) return UsageError("a weight of the split is {}; weights are not negative", weight);
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum)) return UsageError("the weights of the split add up to {}", sum);
  if (options.sources.size() == 1) return {};
  if (options.samples == 0) return UsageError("a blend of several data sets needs a number of samples");
  for (const SourceOptions& source : options.sources) {
    if (!(source.weight > 0) || !std::isfinite(source.weight)) {
      return UsageError("{}: its weight is {}; in a blend each weight is positive", source.prefix,
                        source.weight);
    }
  }
  return {};
}

Result<SampleSource::Source> OpenSource(const DataOptions& options, const std::string& prefix,
                                        int64_t samples) {
  SAMESTEP_ASSIGN_OR_RETURN(MegatronDataset data, MegatronDataset::Open(prefix));
  const auto [first, last] = SplitBounds(options.split, data.sequences())[static_cast<size_t>(options.part)];
  if (first == last) {
    return InvalidError(
        "{}: the split leaves no document for {} out of {}; pack the text as more documents "
        "(`samestep data pack --documents lines` or `blank-lines`), or change data.split",
        prefix, SplitName(options.part), data.sequences());
  }
  const auto length_of = [&data](int64_t sequence) { return data.length(sequence); };
  SAMESTEP_ASSIGN_OR_RETURN(SampleOrder order,
                            SampleOrder::Make(length_of,
                                              {.first = first,
                                               .last = last,
                                               .samples = samples,
                                               .sequence_length = options.sequence_length,
                                               .seed = static_cast<uint32_t>(options.seed)},
                                              fmt::format("{} ({})", prefix, SplitName(options.part))));
  return SampleSource::Source{std::move(data), std::move(order)};
}

}  // namespace

Result<SampleSource> SampleSource::Open(const DataOptions& options) {
  SAMESTEP_RETURN_IF_ERROR(CheckOptions(options));
  SampleSource result;
  result.sequence_length_ = options.sequence_length;
  result.vocab_size_ = options.vocab_size;
  if (options.sources.size() == 1) {
    SAMESTEP_ASSIGN_OR_RETURN(Source source, OpenSource(options, options.sources[0].prefix, options.samples));
    result.samples_ = source.order.samples();
    result.sources_.push_back(std::move(source));
    return result;
  }

  std::vector<double> weights;
  for (const SourceOptions& source : options.sources) weights.push_back(source.weight);
  weights = NormalizeWeights(weights);
  const std::vector<BlendShare> shares = BlendShares(weights, options.samples);
  for (size_t i = 0; i < shares.size(); ++i) {
    SAMESTEP_ASSIGN_OR_RETURN(Source source, OpenSource(options, options.sources[i].prefix, shares[i].built));
    result.sources_.push_back(std::move(source));
    result.samples_ += shares[i].wanted;
  }
  weights = NormalizeWeights(weights);  // Megatron does it twice, which can change the last bit
  result.blend_source_ = BlendOrder(weights, result.samples_);
  std::vector<uint32_t> drawn(shares.size(), 0);
  result.blend_sample_.reserve(result.blend_source_.size());
  for (const int16_t source : result.blend_source_) {
    result.blend_sample_.push_back(drawn[static_cast<size_t>(source)]++);
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    const Source& source = result.sources_[i];
    if (drawn[i] > source.order.samples()) {
      return InvalidError(
          "{}: the blend draws {} samples from it, but {} were built; ask for more samples in all, or "
          "change the weights",
          source.data.prefix(), drawn[i], source.order.samples());
    }
  }
  return result;
}

Status SampleSource::Read(int64_t sample, std::span<int32_t> tokens) const {
  SAMESTEP_CHECK(sample >= 0 && sample < samples_);
  SAMESTEP_CHECK_EQ(static_cast<int64_t>(tokens.size()), sequence_length_ + 1);
  if (blend_source_.empty()) return ReadFrom(sources_[0], sample, tokens);
  const size_t k = static_cast<size_t>(sample);
  return ReadFrom(sources_[static_cast<size_t>(blend_source_[k])], blend_sample_[k], tokens);
}

Status SampleSource::ReadFrom(const Source& source, int64_t sample, std::span<int32_t> tokens) const {
  const MegatronDataset& data = source.data;
  auto [position, offset] =
      source.order.Locate([&data](int64_t sequence) { return data.length(sequence); }, sample);
  while (!tokens.empty()) {
    const int64_t sequence = source.order.document_index()[static_cast<size_t>(position)];
    const size_t count = std::min(tokens.size(), static_cast<size_t>(data.length(sequence) - offset));
    SAMESTEP_RETURN_IF_ERROR(data.Read(sequence, offset, tokens.first(count), vocab_size_));
    tokens = tokens.subspan(count);
    ++position;
    offset = 0;
  }
  return {};
}

Digest SampleSource::Digest() const {
  RecordWriter record;
  record.U64(sources_.size());
  for (const Source& source : sources_) {
    const samestep::Digest digest = source.data.Digest();
    record.U64(digest.high).U64(digest.low);
  }
  return DigestOf(record.bytes());
}

}  // namespace samestep
