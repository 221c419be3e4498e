// contents.h: which memory holds what a recorded call read or wrote, so that each fingerprint is made once.
//
//   contents.Overwrite(view);                    // forget all that overlaps
//   contents.Remember(view, fingerprint, slot);
//   if (const Known* known = contents.Find(view)) ...
//
// A view is found again under any shape that has the same elements at the same place of the logical tensor.
// Memory that something else than a kernel wrote is noticed by a sample of its bytes.
//
// Determinism: what is found decides which bytes are read again, never what is said of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "fingerprint/fingerprint.h"
#include "tensor/tensor.h"

namespace samestep {

class Contents {
 public:
  struct Known {
    Fingerprint fingerprint;
    uint64_t slot = 0;
    bool changed = false;  // a sample of the bytes is not what it was
  };
  const Known* Find(const TensorView& view);
  void Remember(const TensorView& view, const Fingerprint& fingerprint, uint64_t slot);
  void Overwrite(const TensorView& view);
  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  // Rows of `row` bytes, `stride` bytes apart; one row where the memory is contiguous.
  struct Extent {
    uint64_t begin = 0, end = 0, row = 0, stride = 0;
  };
  struct Entry {
    TensorView view;  // as one run where it is one
    Extent extent;
    uint64_t sample = 0;
    Known known;
  };
  static Extent ExtentOf(const TensorView& view);
  static bool Overlap(const Extent& a, const Extent& b);
  static bool SameContent(const TensorView& a, const TensorView& b);
  std::multimap<uint64_t, Entry> entries_;  // by first byte
  uint64_t longest_ = 0;                    // bytes of the longest entry
};

}  // namespace samestep
