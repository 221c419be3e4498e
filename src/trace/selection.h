// selection.h: sets of numbers as people write them: "all", "8", "1-3,8", "100:110" (bounds included).
//
//   SAMESTEP_ASSIGN_OR_RETURN(Selection iterations, Selection::Parse(text, "SAMESTEP_ITERATIONS"));
//   if (iterations.Has(8)) ...
//
// Determinism: plain integers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace samestep {

class Selection {
 public:
  // `source` names the flag or variable in the message of an error.
  static Result<Selection> Parse(std::string_view text, std::string_view source);
  bool Has(int64_t number) const;
  bool all() const { return ranges_.empty(); }
  int64_t last() const;  // the greatest number; of all, the greatest there is
  std::string ToString() const;

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // empty: all
};

}  // namespace samestep
