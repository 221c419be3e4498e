// align.h: lines two sequences up as a text diff does.
//
//   for (const Step& s : Align(a, b)) ...   // s.a and s.b: the same thing; -1: only the other has it
//
// A shortest edit script (Myers), in the order of execution; deletions stand before insertions. Sequences
// that have too little in common are lined up at their ends only.
//
// Determinism: the script is a function of the sequences.
#pragma once

#include <cstdint>
#include <vector>

namespace samestep {

struct Step {
  int64_t a = -1, b = -1;
  bool operator==(const Step&) const = default;
};

std::vector<Step> Align(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

}  // namespace samestep
