#include "locate/compare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

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

// Where a rank's segment of this key stands; -1 where it has none.
int64_t IndexOf(const TraceRank& rank, const SegmentKey& key) {
  const auto& segments = rank.segments();
  const auto at = std::lower_bound(segments.begin(), segments.end(), key,
                                   [](const auto& entry, const SegmentKey& k) { return entry.key < k; });
  return at == segments.end() || at->key != key ? -1 : at - segments.begin();
}

std::set<SegmentKey> KeysOf(const std::vector<TraceRank*>& ranks) {
  std::set<SegmentKey> keys;
  for (const TraceRank* rank : ranks) {
    for (const auto& entry : rank->segments()) keys.insert(entry.key);
  }
  return keys;
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
    for (const Side* side : {&a_, &b_}) SAMESTEP_RETURN_IF_ERROR(FindUnrecorded(*side));
    if (!out_.reason.empty()) {
      out_.verdict = Verdict::kCannotJudge;
      return std::move(out_);
    }
    SAMESTEP_RETURN_IF_ERROR(out_.across_layouts ? CompareAcross() : CompareEachRank());
    if (!out_.across_layouts) SAMESTEP_RETURN_IF_ERROR(TakeTogether());
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

  // Ranks without a file: those that SAMESTEP_RANKS left out are a note, others are missing.
  Status FindUnrecorded(const Side& side) {
    SAMESTEP_ASSIGN_OR_RETURN(const TraceRank first,
                              TraceRank::Open(side.folder, side.listing.present.front(), side.listing.ranks));
    const Result<Selection> parsed = Selection::Parse(first.header().recorded_ranks, side.folder);
    if (!parsed.ok()) return InvalidError("{}", parsed.status().message());
    const Selection& recorded = *parsed;
    std::vector<int32_t> left_out;
    for (int32_t rank = 0; rank < side.listing.ranks; ++rank) {
      const auto& present = side.listing.present;
      if (std::binary_search(present.begin(), present.end(), rank)) continue;
      if (!recorded.Has(rank)) {
        left_out.push_back(rank);
      } else if (out_.across_layouts || options_.ranks.Has(rank)) {
        missing_ranks_.emplace(
            rank, fmt::format("{} has no trace of rank {}, although it was to record {}; copy {} "
                              "to {}",
                              side.name, rank, recorded.all() ? "all ranks" : "it",
                              TraceStem(rank, side.listing.ranks, 0) + ".trace", side.folder));
      }
    }
    if (!left_out.empty()) {
      partial_ = true;
      out_.notes.push_back(fmt::format(
          "{} did not record {} of {} ranks (SAMESTEP_RANKS={}): {}{}", side.name, left_out.size(),
          side.listing.ranks, first.header().recorded_ranks,
          fmt::join(left_out.begin(),
                    left_out.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(8, left_out.size())),
                    ", "),
          left_out.size() > 8 ? ", …" : ""));
    }
    return {};
  }

  Status CompareEachRank() {
    for (const auto& [rank, reason] : missing_ranks_) {
      RankComparison comparison;
      comparison.rank = rank;
      comparison.verdict = Verdict::kCannotJudge;
      comparison.reason = reason;
      ++unverified_;
      out_.ranks.push_back(std::move(comparison));
    }
    for (int32_t rank : a_.listing.present) {
      const auto& present = b_.listing.present;
      if (!options_.ranks.Has(rank) || !std::binary_search(present.begin(), present.end(), rank)) continue;
      RankComparison comparison;
      comparison.rank = rank;
      SAMESTEP_ASSIGN_OR_RETURN(TraceRank a, Open(a_, rank));
      SAMESTEP_ASSIGN_OR_RETURN(TraceRank b, Open(b_, rank));
      std::vector<TraceRank*> x = {&a}, y = {&b};
      Compare(x, y, &comparison);
      out_.ranks.push_back(std::move(comparison));
    }
    std::stable_sort(out_.ranks.begin(), out_.ranks.end(),
                     [](const auto& x, const auto& y) { return x.rank < y.rank; });
    return {};
  }

  Status CompareAcross() {
    if (!options_.ranks.all()) {
      out_.warnings.push_back(
          "--ranks: the layouts differ, so a rank of one is none of the other; all were compared");
    }
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
    if (!missing_ranks_.empty() && comparison.verdict == Verdict::kSame) {
      comparison.verdict = Verdict::kCannotJudge;
      comparison.reason = missing_ranks_.begin()->second;
    }
    if (comparison.verdict == Verdict::kSame && comparison.compared > 0 && logically_compared_ > 0 &&
        tensors_ == 0) {
      comparison.verdict = Verdict::kCannotJudge;
      comparison.reason = "no tensor is whole in what both recorded; record more ranks (SAMESTEP_RANKS)";
    }
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

  // Of several ranks of one layout: the first segment in which any differs, with all ranks of a side
  // together.
  Status TakeTogether() {
    const RankComparison* first = nullptr;
    for (const RankComparison& rank : out_.ranks) {
      if (rank.verdict != Verdict::kDiverged) continue;
      if (first == nullptr || KeyOf(rank) < KeyOf(*first)) first = &rank;
    }
    const bool all = missing_ranks_.empty() && !partial_ && options_.ranks.all();
    if (first == nullptr || out_.ranks.size() < 2 || !all || !out_.level.starts_with("kernel")) return {};
    const SegmentKey key = KeyOf(*first);
    RankComparison together;
    together.rank = -1;
    together.first = first->first;
    together.last = first->last;
    together.resumed_a = first->resumed_a;
    together.resumed_b = first->resumed_b;
    std::vector<TraceRank> opened[2];
    std::vector<TraceRank*> having[2];
    for (const Side* side : {&a_, &b_}) {
      const size_t s = side == &a_ ? 0 : 1;
      for (int32_t rank : side->listing.present) {
        SAMESTEP_ASSIGN_OR_RETURN(TraceRank one, TraceRank::Open(side->folder, rank, side->listing.ranks));
        opened[s].push_back(std::move(one));
      }
      for (TraceRank& rank : opened[s]) {
        if (IndexOf(rank, key) >= 0) having[s].push_back(&rank);
      }
    }
    if (having[0].size() != having[1].size()) return {};
    out_.across_layouts = true;  // how, for this one
    Agrees(having[0], having[1], key, &together);
    out_.across_layouts = false;
    // Anything else a rank knows better: what it adds up of its own is compared there alone.
    const bool origin = together.verdict == Verdict::kDiverged &&
                        together.difference.findings.front().kind == FindingKind::kOrigin;
    if (origin) out_.together = std::move(together);
    return {};
  }

  static SegmentKey KeyOf(const RankComparison& diverged) { return diverged.difference.findings.front().key; }

  // One rank of each, or all of each where the layouts differ.
  void Compare(const std::vector<TraceRank*>& a, const std::vector<TraceRank*>& b, RankComparison* out) {
    unverified_ += a.size() + b.size();
    std::string missing;
    std::set<SegmentKey> keys = KeysOf(a);
    keys.merge(KeysOf(b));
    for (const SegmentKey& key : keys) {
      if (!options_.iterations.Has(key.iteration)) continue;
      std::vector<TraceRank*> x, y;
      const bool has_a = Having(a, key, 'A', &x, &missing), has_b = Having(b, key, 'B', &y, &missing);
      if (!has_a || !has_b) continue;
      if (!Agrees(x, y, key, out)) {
        if (out->verdict == Verdict::kDiverged) {
          out->resumed_a = IsFirstAfterResume(*x[0], key);
          out->resumed_b = IsFirstAfterResume(*y[0], key);
        }
        return;
      }
      ++out->compared;
      for (const TraceRank* rank : x) out_events_ += rank->roll_up(At(*rank, key)).events;
      if (key.after) continue;
      if (out->first < 0) out->first = key.iteration;
      out->last = key.iteration;
    }
    JudgeCoverage(a, b, missing, out);
  }

  static size_t At(const TraceRank& rank, const SegmentKey& key) {
    return static_cast<size_t>(IndexOf(rank, key));
  }

  // The ranks that have a segment. All must, but for what comes after an iteration: not every rank evaluates.
  static bool Having(const std::vector<TraceRank*>& ranks, const SegmentKey& key, char name,
                     std::vector<TraceRank*>* having, std::string* missing) {
    const TraceRank* lacking = nullptr;
    for (TraceRank* rank : ranks) {
      if (IndexOf(*rank, key) >= 0) {
        having->push_back(rank);
      } else if (lacking == nullptr) {
        lacking = rank;
      }
    }
    if (lacking == nullptr) return true;
    if (key.after) return !having->empty();
    if (missing->empty()) *missing = WhyMissing(*lacking, name, key, ranks.size() > 1);
    return false;
  }

  static bool IsFirstAfterResume(const TraceRank& rank, const SegmentKey& key) {
    const size_t i = At(rank, key);
    const int32_t generation = rank.segments()[i].generation;
    return generation > 0 && (i == 0 || rank.segments()[i - 1].generation < generation);
  }

  bool Agrees(const std::vector<TraceRank*>& a, const std::vector<TraceRank*>& b, const SegmentKey& key,
              RankComparison* out) {
    const size_t i = At(*a[0], key), j = At(*b[0], key);
    const bool one_layout = !out_.across_layouts;
    if (one_layout && a[0]->roll_up(i).Agrees(b[0]->roll_up(j))) return true;
    std::vector<Segment> x, y;
    if (!ReadAll(a, key, 'A', &x, out) || !ReadAll(b, key, 'B', &y, out)) return false;
    if (one_layout) {
      out->difference = CompareSegments(x[0], y[0]);
    } else {
      out->difference = CompareLogically(SideOf(a, x), SideOf(b, y));
      not_comparable_ = std::max(not_comparable_, out->difference.not_comparable);
      only_in_one_ = std::max(only_in_one_, out->difference.only_in_one);
      tensors_ += out->difference.tensors;
      in_part_ = std::max(in_part_, out->difference.in_part);
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

  static LogicalSide SideOf(const std::vector<TraceRank*>& ranks, const std::vector<Segment>& segments) {
    LogicalSide side;
    for (size_t i = 0; i < ranks.size(); ++i) {
      side.segments.push_back(&segments[i]);
      side.ranks.push_back(ranks[i]->header().rank);
    }
    return side;
  }

  bool ReadAll(const std::vector<TraceRank*>& ranks, const SegmentKey& key, char name,
               std::vector<Segment>* out, RankComparison* comparison) {
    for (TraceRank* rank : ranks) {
      Result<Segment> read = rank->Read(At(*rank, key));
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

  static std::string WhyMissing(const TraceRank& lacking, char side, const SegmentKey& key, bool several) {
    const std::string name =
        several ? fmt::format("rank {} of {}", lacking.header().rank, side) : std::string(1, side);
    // What comes after an iteration (evaluation, checkpoints) depends on options that change no bit.
    if (key.after || !lacking.Selects(key.iteration)) return "";
    if (key.iteration > LastIteration(lacking)) {
      return fmt::format(
          "{} ends after iteration {}, and the other goes on; to compare what both have: "
          "--iterations 1-{}",
          name, LastIteration(lacking), LastIteration(lacking));
    }
    return fmt::format("{} lacks iteration {}", name, key.iteration);
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
      out_.notes.push_back(fmt::format(
          "the layouts differ: {} logical tensors of {} calls were compared; in an iteration, at most {} "
          "tensors are cut so that they do not compare, and {} calls are in one run only "
          "(docs/formats/trace.md)",
          tensors_, logically_compared_, not_comparable_, only_in_one_));
      if (partial_) {
        out_.notes.push_back(fmt::format(
            "of ranks that were not recorded nothing is said; {} tensors an iteration were compared in part",
            in_part_));
      }
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
  int64_t out_events_ = 0, logically_compared_ = 0, tensors_ = 0;
  int64_t not_comparable_ = 0, only_in_one_ = 0, in_part_ = 0;  // the most of an iteration
  std::map<int32_t, std::string> missing_ranks_;                // and why that is no choice of SAMESTEP_RANKS
  bool partial_ = false;                                        // ranks were left out by choice
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
