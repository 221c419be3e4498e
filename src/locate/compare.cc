#include "locate/compare.h"

#include <algorithm>
#include <map>
#include <optional>

#include "locate/logical.h"
#include "locate/segment_diff.h"
#include "trace/capture.h"
#include "trace/stream.h"

namespace samestep {
namespace {

constexpr uint64_t kSmall = uint64_t{256} << 20;

struct Side {
  std::string folder;
  char name;  // 'A' or 'B'
  TraceListing listing;
};

// Pairs the segments of two traces by key; -1 where one has none.
struct KeyPair {
  SegmentKey key;
  int64_t a = -1, b = -1;
};
std::vector<KeyPair> PairKeys(const TraceRank& a, const TraceRank& b) {
  std::vector<KeyPair> pairs;
  const auto &x = a.segments(), &y = b.segments();
  for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
    const bool in_a = i < x.size() && (j == y.size() || x[i].key <= y[j].key);
    const bool in_b = j < y.size() && (i == x.size() || y[j].key <= x[i].key);
    KeyPair pair;
    pair.key = in_a ? x[i].key : y[j].key;
    if (in_a) pair.a = static_cast<int64_t>(i++);
    if (in_b) pair.b = static_cast<int64_t>(j++);
    pairs.push_back(pair);
  }
  return pairs;
}

int64_t LastIteration(const TraceRank& rank) {
  return rank.segments().empty() ? -1 : rank.segments().back().key.iteration;
}

class TraceComparer {
 public:
  TraceComparer(Side a, Side b, const CompareOptions& options)
      : a_(std::move(a)), b_(std::move(b)), options_(options) {
    out_.path_a = a_.folder;
    out_.path_b = b_.folder;
  }

  Result<Comparison> Run() {
    SAMESTEP_RETURN_IF_ERROR(CompareHeaders());
    if (!out_.reason.empty()) {
      out_.verdict = Verdict::kCannotJudge;
      return std::move(out_);
    }
    SAMESTEP_RETURN_IF_ERROR(out_.across_layouts ? CompareAcross() : CompareEachRank());
    Conclude();
    return std::move(out_);
  }

 private:
  Result<TraceRank> Open(const Side& side, int32_t rank) {
    SAMESTEP_ASSIGN_OR_RETURN(TraceRank opened, TraceRank::Open(side.folder, rank, side.listing.ranks));
    for (const auto& file : opened.files()) {
      out_.bytes += file->size() + file->side_size();
      out_.bytes_read += file->bytes_read();
    }
    return opened;
  }

  // Whether the two can be compared at all, by their first ranks.
  Status CompareHeaders() {
    SAMESTEP_ASSIGN_OR_RETURN(const TraceRank a,
                              TraceRank::Open(a_.folder, a_.listing.present.front(), a_.listing.ranks));
    SAMESTEP_ASSIGN_OR_RETURN(const TraceRank b,
                              TraceRank::Open(b_.folder, b_.listing.present.front(), b_.listing.ranks));
    const TraceHeader &x = a.header(), &y = b.header();
    out_.level = LevelName(std::min(x.level, y.level));
    const bool both_kernel = std::min(x.level, y.level) >= Level::kKernel;
    if (x.level != y.level && !both_kernel) {
      out_.reason = fmt::format(
          "A was recorded at level {} and B at level {}; record both with the same SAMESTEP_LEVEL",
          LevelName(x.level), LevelName(y.level));
    } else if (x.recipe_digest != y.recipe_digest || x.numerics != y.numerics) {
      const std::string what = fmt::format("A is of recipe {} ({}) and B of recipe {} ({})", x.recipe_digest,
                                           x.numerics, y.recipe_digest, y.numerics);
      if (options_.other_recipe) {
        out_.warnings.push_back(what);
      } else {
        out_.reason = what +
                      "; different recipes give different bits. To compare them all the same: "
                      "--other-recipe";
      }
    }
    const auto say = [&](const auto& p, const auto& q, std::string_view what, std::vector<std::string>* to) {
      for (const auto& [name, value] : p) {
        const auto other = q.find(name);
        if (other == q.end() || other->second != value) {
          to->push_back(fmt::format("{} {}: {} in A, {} in B", what, name, value,
                                    other == q.end() ? "not stated" : other->second));
        }
      }
    };
    say(x.software, y.software, "software", &out_.warnings);
    say(x.environment, y.environment, "environment", &out_.notes);
    out_.across_layouts = a_.listing.ranks != b_.listing.ranks;
    for (const auto& file : a.files()) {
      for (const auto& other : b.files()) {
        if (file->header().layout == other->header().layout) continue;
        out_.across_layouts = true;
      }
    }
    return {};
  }

  Status CompareEachRank() {
    std::map<int32_t, int> present;
    for (int32_t rank : a_.listing.present) present[rank] |= 1;
    for (int32_t rank : b_.listing.present) present[rank] |= 2;
    for (const auto& [rank, where] : present) {
      if (!options_.ranks.Has(rank)) continue;
      RankComparison comparison;
      comparison.rank = rank;
      if (where != 3) {
        comparison.verdict = Verdict::kCannotJudge;
        comparison.reason = fmt::format("only {} has a trace of rank {}", where == 1 ? 'A' : 'B', rank);
        ++unverified_;
        out_.ranks.push_back(std::move(comparison));
        continue;
      }
      SAMESTEP_ASSIGN_OR_RETURN(TraceRank a, Open(a_, rank));
      SAMESTEP_ASSIGN_OR_RETURN(TraceRank b, Open(b_, rank));
      std::vector<TraceRank*> x = {&a}, y = {&b};
      Compare(x, y, &comparison);
      out_.ranks.push_back(std::move(comparison));
    }
    return {};
  }

  Status CompareAcross() {
    std::vector<TraceRank> a, b;
    for (int32_t rank : a_.listing.present) {
      SAMESTEP_ASSIGN_OR_RETURN(TraceRank opened, Open(a_, rank));
      a.push_back(std::move(opened));
    }
    for (int32_t rank : b_.listing.present) {
      SAMESTEP_ASSIGN_OR_RETURN(TraceRank opened, Open(b_, rank));
      b.push_back(std::move(opened));
    }
    std::vector<TraceRank*> x, y;
    for (TraceRank& rank : a) x.push_back(&rank);
    for (TraceRank& rank : b) y.push_back(&rank);
    RankComparison comparison;
    comparison.rank = -1;
    Compare(x, y, &comparison);
    const bool rolled_up = out_.level == "phase" || out_.level == "module";
    if (rolled_up && comparison.verdict == Verdict::kSame) {
      comparison.verdict = Verdict::kCannotJudge;
      comparison.reason = fmt::format(
          "the layouts differ, and of level {} only scalars and noted tensors compare across layouts (they "
          "agree); "
          "record both with SAMESTEP_LEVEL=kernel",
          out_.level);
    }
    out_.ranks.push_back(std::move(comparison));
    return {};
  }

  // One rank of each, or all of each where the layouts differ.
  void Compare(const std::vector<TraceRank*>& a, const std::vector<TraceRank*>& b, RankComparison* out) {
    unverified_ += a.size() + b.size();
    std::string missing;
    for (const KeyPair& pair : PairKeys(*a[0], *b[0])) {
      if (!options_.iterations.Has(pair.key.iteration)) continue;
      if (pair.a < 0 || pair.b < 0) {
        if (missing.empty()) missing = WhyMissing(*a[0], *b[0], pair);
        continue;
      }
      const auto i = static_cast<size_t>(pair.a), j = static_cast<size_t>(pair.b);
      if (!Agrees(a, b, i, j, out)) {
        if (out->verdict == Verdict::kDiverged) {
          out->resumed_a = IsFirstAfterResume(*a[0], i);
          out->resumed_b = IsFirstAfterResume(*b[0], j);
        }
        return;
      }
      ++out->compared;
      out_events_ += a[0]->roll_up(i).events;
      if (pair.key.after) continue;
      if (out->first < 0) out->first = pair.key.iteration;
      out->last = pair.key.iteration;
    }
    JudgeCoverage(a, b, missing, out);
  }

  static bool IsFirstAfterResume(const TraceRank& rank, size_t i) {
    const int32_t generation = rank.segments()[i].generation;
    return generation > 0 && (i == 0 || rank.segments()[i - 1].generation < generation);
  }

  bool Agrees(const std::vector<TraceRank*>& a, const std::vector<TraceRank*>& b, size_t i, size_t j,
              RankComparison* out) {
    const bool one_layout =
        a.size() == 1 && b.size() == 1 && a[0]->file(i).header().layout == b[0]->file(j).header().layout;
    if (one_layout && a[0]->roll_up(i).Agrees(b[0]->roll_up(j))) return true;
    const SegmentKey key = a[0]->segments()[i].key;
    std::vector<Segment> x, y;
    if (!ReadAll(a, key, 'A', &x, out) || !ReadAll(b, key, 'B', &y, out)) return false;
    if (one_layout) {
      out->difference = CompareSegments(x[0], y[0]);
    } else {
      out->difference = CompareLogically(Pointers(x), Pointers(y));
      not_comparable_ = std::max(not_comparable_, out->difference.not_comparable);
    }
    if (!out->difference.findings.empty()) {
      out->verdict = Verdict::kDiverged;
      AttachElements(key, out);
      return false;
    }
    if (!one_layout) {
      logically_compared_ += out->difference.compared;
      return true;
    }
    out->verdict = Verdict::kCannotJudge;
    out->reason = fmt::format(
        "the roll-ups of {} differ, and its events do not: one of the traces is damaged", key.ToString());
    return false;
  }

  static std::vector<const Segment*> Pointers(const std::vector<Segment>& segments) {
    std::vector<const Segment*> pointers;
    for (const Segment& segment : segments) pointers.push_back(&segment);
    return pointers;
  }

  bool ReadAll(const std::vector<TraceRank*>& ranks, const SegmentKey& key, char name,
               std::vector<Segment>* out, RankComparison* comparison) {
    for (TraceRank* rank : ranks) {
      const auto& segments = rank->segments();
      const auto at =
          std::find_if(segments.begin(), segments.end(), [&](const auto& e) { return e.key == key; });
      Result<Segment> read =
          at == segments.end()
              ? Result<Segment>(InvalidError("rank {} has no {}", rank->header().rank, key.ToString()))
              : rank->Read(static_cast<size_t>(at - segments.begin()));
      if (!read.ok()) {
        comparison->verdict = Verdict::kCannotJudge;
        comparison->reason = fmt::format("{}: {}", name, read.status().message());
        return false;
      }
      out_.bytes_read += 16 * read->slots.size() + 8 * read->values.size();
      out->push_back(std::move(read).value());
    }
    return true;
  }

  static std::string WhyMissing(const TraceRank& a, const TraceRank& b, const KeyPair& pair) {
    const TraceRank& lacking = pair.a < 0 ? a : b;
    const char name = pair.a < 0 ? 'A' : 'B';
    // What comes after an iteration (evaluation, checkpoints) depends on options that change no bit.
    if (pair.key.after || !lacking.Selects(pair.key.iteration)) return "";
    if (pair.key.iteration > LastIteration(lacking)) {
      return fmt::format(
          "{} ends after iteration {}, and the other goes on; to compare what both have: "
          "--iterations 1-{}",
          name, LastIteration(lacking), LastIteration(lacking));
    }
    return fmt::format("{} lacks iteration {}", name, pair.key.iteration);
  }

  // All that was compared agrees; was it all?
  void JudgeCoverage(const std::vector<TraceRank*>& a, const std::vector<TraceRank*>& b,
                     const std::string& missing, RankComparison* out) {
    std::string damage, why;
    for (const auto* side : {&a, &b}) {
      const char name = side == &a ? 'A' : 'B';
      for (const TraceRank* rank : *side) {
        if (damage.empty()) damage = DamageOf(*rank, name);
        if (why.empty()) why = WhyOpen(*rank, name);
      }
    }
    if (!damage.empty()) why = damage;
    if (why.empty()) why = missing;
    if (why.empty() && out->compared == 0) why = "no iteration is in both";
    if (why.empty()) return;
    out->verdict = Verdict::kCannotJudge;
    out->reason = why;
  }

  // Damage counts wherever it is, since it shows that the file is not what was written.
  std::string DamageOf(const TraceRank& rank, char name) {
    if (!rank.torn() && !rank.Damage().empty()) return fmt::format("{}: {}", name, rank.Damage());
    if (!Verifies(rank)) return "";
    if (const Status status = rank.Verify(); !status.ok())
      return fmt::format("{}: {}", name, status.message());
    --unverified_;
    return "";
  }

  // Why more may have come than the last whole segment, where the question reaches behind that.
  std::string WhyOpen(const TraceRank& rank, char name) const {
    const int64_t last = LastIteration(rank);
    if (options_.iterations.last() <= last) return "";
    const std::string advice =
        last < 1 ? "" : fmt::format("; to compare what is whole: --iterations 1-{}", last);
    if (rank.torn()) return fmt::format("{}: {}{}", name, rank.Damage(), advice);
    if (rank.finished()) return "";
    return fmt::format("{}: {} was not finished: the run was stopped after iteration {}, or still goes on{}",
                       name, rank.files().back()->path(), last, advice);
  }

  bool Verifies(const TraceRank& rank) {
    if (options_.verify == CompareOptions::Verify::kNo) return false;
    uint64_t bytes = 0;
    for (const auto& file : rank.files()) bytes += file->size();
    if (options_.verify == CompareOptions::Verify::kIfSmall && verified_bytes_ + bytes > kSmall) return false;
    verified_bytes_ += bytes;
    out_.bytes_read += bytes;
    return true;
  }

  // Where both runs kept the bytes of a call that differs, how its elements differ.
  void AttachElements(const SegmentKey& key, RankComparison* out) {
    if (out->rank < 0) return;
    for (Finding& finding : out->difference.findings) {
      if (finding.event_a < 0 || finding.event_b < 0 || finding.site.kind != EventKind::kCall) continue;
      const auto path = [&](const Side& side, int64_t event) {
        return CapturePath(side.folder, out->rank, side.listing.ranks, key, static_cast<uint64_t>(event));
      };
      const auto a = ReadCapture(path(a_, finding.event_a)), b = ReadCapture(path(b_, finding.event_b));
      if (!a.ok() || !b.ok()) continue;
      for (ArgumentReport& argument : finding.arguments) {
        const CapturedTensor* x = a->Find(argument.site.role, argument.site.output);
        const CapturedTensor* y = b->Find(argument.site.role, argument.site.output);
        if (x == nullptr || y == nullptr || x->site != y->site || argument.same()) continue;
        argument.elements = CompareElements(*x, *y);
      }
    }
  }

  void Conclude() {
    out_.verified = unverified_ == 0 && verified_bytes_ > 0;
    bool diverged = false, cannot = false;
    for (const RankComparison& rank : out_.ranks) {
      diverged = diverged || rank.verdict == Verdict::kDiverged;
      if (rank.verdict == Verdict::kCannotJudge && !cannot) {
        cannot = true;
        out_.reason = rank.rank < 0 || out_.ranks.size() == 1
                          ? rank.reason
                          : fmt::format("rank {}: {}", rank.rank, rank.reason);
      }
    }
    if (out_.ranks.empty()) {
      cannot = true;
      out_.reason = "no rank was chosen that both have";
    }
    out_.verdict = diverged ? Verdict::kDiverged : cannot ? Verdict::kCannotJudge : Verdict::kSame;
    if (diverged) out_.reason.clear();
    if (out_.across_layouts) {
      out_.notes.push_back(
          fmt::format("the layouts differ: logical tensors were compared ({} calls; at most {} tensors or "
                      "calls an iteration "
                      "could not be, see docs/formats/trace.md)",
                      logically_compared_, not_comparable_));
    }
    out_.strength = out_events_ == 0 && out_.verdict == Verdict::kSame ? "structure" : "fingerprints";
    for (const RankComparison& rank : out_.ranks) {
      if (rank.difference.findings.empty()) continue;
      for (const ArgumentReport& argument : rank.difference.findings.front().arguments) {
        if (argument.elements) out_.strength = "bytes";
      }
    }
  }

  Side a_, b_;
  CompareOptions options_;
  Comparison out_;
  int64_t out_events_ = 0, logically_compared_ = 0, not_comparable_ = 0;
  uint64_t verified_bytes_ = 0;
  size_t unverified_ = 0;  // ranks of either side
};

}  // namespace

Result<Comparison> CompareTraces(const std::string& a, const std::string& b, const CompareOptions& options) {
  Side sides[2] = {{a, 'A', {}}, {b, 'B', {}}};
  for (Side& side : sides) {
    SAMESTEP_ASSIGN_OR_RETURN(side.listing, ListTraces(side.folder));
  }
  return TraceComparer(sides[0], sides[1], options).Run();
}

}  // namespace samestep
