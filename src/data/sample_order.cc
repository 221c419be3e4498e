#include "data/sample_order.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "base/check.h"
#include "data/numpy_random.h"

namespace samestep {
namespace {

constexpr int64_t kStride = 64;
constexpr int64_t kMaxDocuments = int64_t{1} << 32;  // 16 GiB of document index

// numpy.sum: eight running sums within blocks of up to 128, halves added above that.
double NumpySum(std::span<const double> values) {
  if (values.size() < 8) return std::accumulate(values.begin(), values.end(), 0.0);
  if (values.size() > 128) {
    size_t half = values.size() / 2;
    half -= half % 8;
    return NumpySum(values.first(half)) + NumpySum(values.subspan(half));
  }
  double sums[8];
  std::copy_n(values.begin(), 8, sums);
  size_t i = 8;
  for (; i + 8 <= values.size(); i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += values[i + j];
  }
  double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < values.size(); ++i) sum += values[i];
  return sum;
}

// Appends the split's sequences `epochs` times and shuffles what was appended.
void AppendShuffledEpochs(const SampleOrderOptions& options, int64_t epochs, NumpyRandomState& random,
                          std::vector<int32_t>& documents) {
  const size_t begin = documents.size();
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (int64_t i = options.first; i < options.last; ++i) documents.push_back(static_cast<int32_t>(i));
  }
  random.Shuffle(std::span<int32_t>(documents).subspan(begin));
}

}  // namespace

Result<std::array<double, 3>> ParseSplit(std::string_view text) {
  std::array<double, 3> weights{};
  size_t count = 0;
  double sum = 0;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    double value = 0;
    const auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), value, std::chars_format::fixed);
    if (count == 3 || error != std::errc() || end != part.data() + part.size() || !std::isfinite(value) ||
        value < 0) {
      return UsageError(
          "the split \"{}\" is not up to three weights with commas between them, such as \"99,1,0\" "
          "for training, validation and test",
          text);
    }
    weights[count++] = value;
    sum += value;
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (!(sum > 0) || !std::isfinite(sum))
    return UsageError("the weights of the split \"{}\" add up to {}", text, sum);
  return weights;
}

std::array<std::pair<int64_t, int64_t>, 3> SplitBounds(const std::array<double, 3>& weights,
                                                       int64_t sequences) {
  const std::vector<double> shares = NormalizeWeights({weights.begin(), weights.end()});
  std::array<std::pair<int64_t, int64_t>, 3> bounds;
  double low = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double high = low + shares[i];
    const double n = static_cast<double>(sequences);
    // Python's round, which rint is in the rounding mode that every thread is checked for: ties to even.
    const int64_t begin = std::min(sequences, static_cast<int64_t>(std::rint(low * n)));
    const int64_t end = std::min(sequences, static_cast<int64_t>(std::rint(high * n)));
    bounds[i] = high > low ? std::pair(begin, end) : std::pair(begin, begin);
    low = high;
  }
  return bounds;
}

std::vector<double> NormalizeWeights(std::vector<double> weights) {
  const double sum = NumpySum(weights);
  for (double& weight : weights) weight /= sum;
  return weights;
}

Result<SampleOrder> SampleOrder::Make(const LengthOf& length_of, const SampleOrderOptions& options,
                                      std::string_view name) {
  SAMESTEP_CHECK(options.sequence_length > 0 && options.samples >= 0);
  SAMESTEP_CHECK(options.first >= 0 && options.first <= options.last);
  const int64_t sequence_length = options.sequence_length;
  if (options.last > std::numeric_limits<int32_t>::max()) {
    return InvalidError("{}: {} documents; the sample order holds up to 2147483647", name, options.last);
  }
  SampleOrder order;
  order.sequence_length_ = sequence_length;
  for (int64_t i = options.first; i < options.last; ++i) order.tokens_per_epoch_ += length_of(i);
  const int64_t per_epoch = order.tokens_per_epoch_;
  if (per_epoch < sequence_length + 1) {
    return InvalidError(
        "{}: {} tokens in {} documents, but one sample takes {} (the sequence length and one more); "
        "use more text or a shorter sequence",
        name, per_epoch, options.last - options.first, sequence_length + 1);
  }
  constexpr int64_t kMaxSamples = std::numeric_limits<uint32_t>::max() - 1;
  if (options.samples > kMaxSamples) {
    return UsageError("{}: {} samples are needed, but the order holds up to {}", name, options.samples,
                      kMaxSamples);
  }
  const int64_t needed = options.samples * sequence_length + 1;
  order.epochs_ = options.samples == 0 ? 1 : (needed + per_epoch - 1) / per_epoch;
  const int64_t total = order.epochs_ * per_epoch;
  const int64_t count = (total - 1) / sequence_length;
  const int64_t documents = options.last - options.first;
  if (count > kMaxSamples || order.epochs_ > kMaxDocuments / documents) {
    return UsageError("{}: {} epochs of {} documents are more than the sample order holds", name,
                      order.epochs_, documents);
  }
  int64_t shuffled_first = count;
  if (order.epochs_ > 1) {
    const int64_t before_final = ((order.epochs_ - 1) * per_epoch - 1) / sequence_length;
    const int64_t from_final = options.samples - before_final;
    const int64_t in_epoch = (per_epoch - 1) / sequence_length;
    order.separate_final_epoch_ = from_final < static_cast<int64_t>(0.80 * static_cast<double>(in_epoch));
    if (order.separate_final_epoch_) shuffled_first = before_final;
  }

  NumpyRandomState random(options.seed);
  order.documents_.reserve(static_cast<size_t>(order.epochs_ * documents));
  AppendShuffledEpochs(options, order.epochs_ - (order.separate_final_epoch_ ? 1 : 0), random,
                       order.documents_);
  if (order.separate_final_epoch_) AppendShuffledEpochs(options, 1, random, order.documents_);
  order.shuffle_.resize(static_cast<size_t>(count));
  std::iota(order.shuffle_.begin(), order.shuffle_.end(), 0u);
  const std::span<uint32_t> shuffle(order.shuffle_);
  random.Shuffle(shuffle.first(static_cast<size_t>(shuffled_first)));
  random.Shuffle(shuffle.subspan(static_cast<size_t>(shuffled_first)));

  int64_t before = 0;
  for (size_t i = 0; i < order.documents_.size(); ++i) {
    if (i % kStride == 0) order.tokens_before_.push_back(before);
    before += length_of(order.documents_[i]);
  }
  return order;
}

SampleOrder::Start SampleOrder::LocateUnshuffled(const LengthOf& length_of, int64_t j) const {
  SAMESTEP_CHECK(j >= 0 && j <= samples());
  if (j == 0) return {};  // even if the first documents are empty
  // A sample starts with the token that its predecessor ends with, so in the document that holds this token.
  const int64_t token = std::min(j * sequence_length_, epochs_ * tokens_per_epoch_ - 1);
  const auto above = std::upper_bound(tokens_before_.begin(), tokens_before_.end(), token);
  const int64_t block = above - tokens_before_.begin() - 1;
  int64_t position = block * kStride;
  int64_t offset = token - tokens_before_[static_cast<size_t>(block)];
  for (;; ++position) {
    const int32_t length = length_of(documents_[static_cast<size_t>(position)]);
    if (offset < length) return {position, offset};
    offset -= length;
  }
}

std::vector<BlendShare> BlendShares(const std::vector<double>& normalized_weights, int64_t samples) {
  std::vector<BlendShare> shares;
  for (const double weight : normalized_weights) {
    const double wanted = std::ceil(static_cast<double>(samples) * weight);
    shares.push_back({static_cast<int64_t>(wanted), static_cast<int64_t>(std::ceil(wanted * (1 + 0.005)))});
  }
  return shares;
}

std::vector<int16_t> BlendOrder(const std::vector<double>& normalized_weights, int64_t samples) {
  const size_t sources = normalized_weights.size();
  SAMESTEP_CHECK(sources > 0 && sources < 32767);
  std::vector<double> drawn(sources, 0.0);
  std::vector<int16_t> order(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i) {
    const double t = std::max(static_cast<double>(i), 1.0);
    size_t furthest = 0;
    double most = normalized_weights[0] * t - drawn[0];
    for (size_t s = 1; s < sources; ++s) {
      const double behind = normalized_weights[s] * t - drawn[s];
      if (behind > most) {
        most = behind;
        furthest = s;
      }
    }
    order[static_cast<size_t>(i)] = static_cast<int16_t>(furthest);
    drawn[furthest] += 1;
  }
  return order;
}

}  // namespace samestep
