// sample_order.h: which tokens make up training sample k, as Megatron Core's GPTDataset defines it.
//
//   SampleOrder order = SampleOrder::Make(lengths, {.first = 0, .last = 990, .samples = 800, ...}).value();
//   order.Locate(k)     // where sample k starts: a position in document_index() and a token offset
//
// The documents (sequences of the .idx file) of one split are repeated for as many epochs as the samples
// need, shuffled, and joined into one stream of tokens. Sample j before shuffling is the sequence_length + 1
// tokens from j * sequence_length on; a second shuffle orders the samples. If the last epoch is needed for
// less than 80 % only, it is shuffled on its own, in both shuffles. One generator makes all of them.
//
// Megatron stores the start of each sample (its sample_index). Here it is found from running sums of lengths,
// which are kept for every 64th document only.
//
// Sources: megatron/core/datasets/gpt_dataset.py, helpers.cpp, blended_dataset.py and
// blended_megatron_dataset_builder.py of NVIDIA's Megatron-LM. tests/data/megatron_order.json holds vectors
// that an independent program made with NumPy.
//
// A last sample that would be shorter than the others is dropped, as Megatron does unless told otherwise.
//
// Determinism: integer arithmetic and single IEEE operations on binary64; a function of the lengths and the
// options.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace samestep {

// "99,1,0": weights of training, validation and test, not yet normalized. Missing ones are 0.
Result<std::array<double, 3>> ParseSplit(std::string_view text);

// The first sequence and the one after the last of each split, of `sequences` in all.
std::array<std::pair<int64_t, int64_t>, 3> SplitBounds(const std::array<double, 3>& weights,
                                                       int64_t sequences);

// Weights divided by their sum, which is added up in NumPy's order.
std::vector<double> NormalizeWeights(std::vector<double> weights);

struct SampleOrderOptions {
  int64_t first = 0;  // sequences [first, last) of the data set
  int64_t last = 0;
  int64_t samples = 0;  // needed at least; 0: one epoch
  int64_t sequence_length = 0;
  uint32_t seed = 0;
};

class SampleOrder {
 public:
  using LengthOf = std::function<int32_t(int64_t sequence)>;

  // kInvalid if the split cannot fill one sample; `name` is what messages call the data.
  static Result<SampleOrder> Make(const LengthOf& length_of, const SampleOrderOptions& options,
                                  std::string_view name);

  // At least those asked for: all that the epochs give.
  int64_t samples() const { return static_cast<int64_t>(shuffle_.size()); }
  int64_t epochs() const { return epochs_; }
  int64_t tokens_per_epoch() const { return tokens_per_epoch_; }
  bool separate_final_epoch() const { return separate_final_epoch_; }

  struct Start {
    int64_t position = 0;  // in document_index()
    int64_t offset = 0;    // tokens of that document that come before
  };
  // Where sample `j` of the unshuffled samples starts. Row j of Megatron's sample_index.
  Start LocateUnshuffled(const LengthOf& length_of, int64_t j) const;
  // Where the k-th sample that is trained on starts.
  Start Locate(const LengthOf& length_of, int64_t k) const {
    return LocateUnshuffled(length_of, shuffle_[static_cast<size_t>(k)]);
  }

  const std::vector<int32_t>& document_index() const { return documents_; }
  const std::vector<uint32_t>& shuffle_index() const { return shuffle_; }

 private:
  SampleOrder() = default;
  std::vector<int32_t> documents_;
  std::vector<uint32_t> shuffle_;
  std::vector<int64_t> tokens_before_;  // tokens before every 64th position of documents_
  int64_t sequence_length_ = 0;
  int64_t epochs_ = 0;
  int64_t tokens_per_epoch_ = 0;
  bool separate_final_epoch_ = false;
};

// How many samples each source of a blend gives to `samples` of it, and how many are to be built (0.5 % more,
// because the order below can draw a few more from a source than its share).
struct BlendShare {
  int64_t wanted = 0;
  int64_t built = 0;
};
std::vector<BlendShare> BlendShares(const std::vector<double>& normalized_weights, int64_t samples);

// Which source each sample of a blend is drawn from: the one that is furthest behind its weight, the first
// of those that are equally far. The n-th draw from a source is its sample n.
std::vector<int16_t> BlendOrder(const std::vector<double>& normalized_weights, int64_t samples);

}  // namespace samestep
