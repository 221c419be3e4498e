// compare.h: do two traces say the same, and where do they part.
//
//   SAMESTEP_ASSIGN_OR_RETURN(Comparison c, CompareTraces("run-a/trace", "run-b/trace", {}));
//   fmt::print("{}", DescribeText(c));   // describe.h
//   return c.ExitCode();                 // 0 same, 1 diverged, 2 cannot judge
//
// Within one layout, roll-ups are compared, and events are read only of the first iteration that differs.
// Across layouts each iteration's events are read (logical.h). No first among ranks is claimed: each rank has
// its own.
//
// Determinism: a function of the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "locate/finding.h"
#include "trace/selection.h"

namespace samestep {

enum class Verdict { kSame = 0, kDiverged = 1, kCannotJudge = 2 };

struct CompareOptions {
  Selection iterations, ranks;
  bool other_recipe = false;  // compare although the recipes differ
  // Whether the checksums of all blocks are read, too, and not only those of the roll-ups. Where a difference
  // is found, what follows it is not read.
  enum class Verify { kIfSmall, kYes, kNo } verify = Verify::kIfSmall;
};

struct RankComparison {
  int32_t rank = 0;
  Verdict verdict = Verdict::kSame;
  std::string reason;                         // why it cannot be judged
  int64_t compared = 0;                       // segments
  int64_t first = -1, last = -1;              // iterations that agree
  SegmentDifference difference;               // of the first segment that differs
  bool resumed_a = false, resumed_b = false;  // that segment is the first after a resume
};

struct Comparison {
  std::string path_a, path_b;
  Verdict verdict = Verdict::kSame;
  std::string reason;    // why it cannot be judged
  std::string strength;  // what agreement rests on: "fingerprints", "bytes", "structure"; and of what
  std::string level;
  bool across_layouts = false;
  bool verified = false;  // the checksums of all blocks up to the last whole segment, in every rank of both
  std::vector<RankComparison> ranks;
  // Ranks of one layout that differ, taken together as across layouts (rank -1): between them it says where
  // the difference arises, which a rank that received it cannot.
  std::optional<RankComparison> together;
  std::vector<std::string> warnings, notes;
  uint64_t bytes = 0, bytes_read = 0;  // of both traces
  int ExitCode() const { return static_cast<int>(verdict); }
};

// A status where a trace cannot be opened at all.
Result<Comparison> CompareTraces(const std::string& a, const std::string& b, const CompareOptions& options);

}  // namespace samestep
