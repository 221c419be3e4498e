// capture.h: which calls' bytes are kept, and the files that hold them.
//
//   SAMESTEP_ASSIGN_OR_RETURN(CaptureRules rules, CaptureRules::Parse("kernel=linear.*,iteration=3"));
//   if (rules.Match(site, iteration, occurrence)) ...
//   SAMESTEP_RETURN_IF_ERROR(WriteCapture(path, capture));
//   SAMESTEP_ASSIGN_OR_RETURN(Capture capture, Capture::Open(path));
//
// A capture is one safetensors file a call: tensors "input.ROLE" and "output.ROLE", and in its metadata, as
// JSON, where the call stood and its attributes.
//
// Determinism: the bytes as they were.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "trace/event.h"
#include "trace/selection.h"

namespace samestep {

class CaptureRules {
 public:
  static Result<CaptureRules> Parse(std::string_view text);
  bool empty() const { return rules_.empty(); }
  bool Match(std::string_view kernel, std::string_view module, Phase phase, int64_t iteration,
             int64_t occurrence) const;
  uint64_t limit() const { return limit_; }

 private:
  struct Rule {
    std::string kernel = "*", module = "*", phase = "*";
    Selection iterations, occurrences;
  };
  std::vector<Rule> rules_;
  uint64_t limit_ = uint64_t{1} << 30;
};

struct CapturedTensor {
  TensorSite site;
  std::string bytes;  // packed, row-major
};

struct Capture {
  SegmentKey key;
  uint64_t event = 0;  // its number in the segment
  Site site;
  std::vector<uint64_t> values;  // of the attributes
  std::vector<CapturedTensor> tensors;

  const CapturedTensor* Find(std::string_view role, bool output) const;
};

// Packs a view's elements.
std::string PackedBytes(const TensorView& view);

std::string CapturePath(const std::string& folder, int32_t rank, int32_t ranks, const SegmentKey& key,
                        uint64_t event);
Status WriteCapture(const std::string& path, const Capture& capture);
Result<Capture> ReadCapture(const std::string& path);

}  // namespace samestep
