// sample_source.h: the tokens of training sample k, from one data set or a blend of several.
//
//   DataOptions options{.sources = {{"kjv_text_document"}}, .sequence_length = 256, .samples = 800 * 16,
//                       .vocab_size = 257, .seed = 1234};
//   SAMESTEP_ASSIGN_OR_RETURN(SampleSource source, SampleSource::Open(options));
//   std::vector<int32_t> tokens(256 + 1);                     // inputs, and targets one further
//   SAMESTEP_RETURN_IF_ERROR(source.Read(consumed_samples, tokens));
//
// A sample is a function of its number alone, so that a run resumes from the number of samples it consumed.
// Order and blend are those of Megatron Core (sample_order.h).
//
// Determinism: a function of the files and the options; Read may be called from several threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/megatron_index.h"
#include "data/sample_order.h"
#include "fingerprint/digest.h"

namespace samestep {

enum class DataSplit { kTraining = 0, kValidation = 1, kTest = 2 };

struct SourceOptions {
  std::string prefix;  // of a .bin/.idx pair
  double weight = 1;   // in a blend
};

struct DataOptions {
  std::vector<SourceOptions> sources;
  std::array<double, 3> split = {99, 1, 0};
  DataSplit part = DataSplit::kTraining;
  int64_t sequence_length = 0;
  int64_t samples = 0;     // needed; 0: those of one epoch (one source only)
  int64_t vocab_size = 0;  // of the model: larger ids are refused
  uint64_t seed = 0;       // below 2^32, as NumPy's RandomState takes it
};

class SampleSource {
 public:
  static Result<SampleSource> Open(const DataOptions& options);

  // At least those asked for.
  int64_t samples() const { return samples_; }
  // tokens.size() is the sequence length and one more.
  Status Read(int64_t sample, std::span<int32_t> tokens) const;

  // Of the contents of all sources, in their order. Reads up to 1 GiB of each.
  samestep::Digest Digest() const;

  struct Source {
    MegatronDataset data;
    SampleOrder order;
  };
  const std::vector<Source>& sources() const { return sources_; }

 private:
  SampleSource() = default;
  Status ReadFrom(const Source& source, int64_t sample, std::span<int32_t> tokens) const;
  std::vector<Source> sources_;
  std::vector<int16_t> blend_source_;  // empty with one source
  std::vector<uint32_t> blend_sample_;
  int64_t samples_ = 0;
  int64_t sequence_length_ = 0;
  int64_t vocab_size_ = 0;
};

}  // namespace samestep
