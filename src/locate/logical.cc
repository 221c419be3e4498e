#include "locate/logical.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "locate/logical_calls.h"

namespace samestep {
namespace {

constexpr size_t kMaxFindings = 16;
constexpr size_t kMaxNamed = 4;           // calls that a finding names
constexpr size_t kMaxBoxPairs = 1 << 20;  // beyond which boxes are not held against each other

using State = Joined::State;

// A box that both sides have, by one part of the one and by parts that tile it of the other.
struct SharedBox {
  TensorSite site;
  Fingerprint a, b;
  std::set<size_t> segments_a, segments_b;
};

std::optional<Fingerprint> SumWithin(const Box& box, const Joined& joined, std::set<size_t>* segments) {
  std::vector<Box> boxes;
  Fingerprint sum;
  for (const auto& [inner, held] : joined.boxes) {
    if (!Contains(box, inner)) continue;
    boxes.push_back(inner);
    sum += held.begin()->second->fingerprint;
    for (const auto& [segment, part] : held) {
      if (part->fingerprint != held.begin()->second->fingerprint) return {};
      segments->insert(segment);
    }
  }
  if (!Tiles(boxes, box)) return {};
  return sum;
}

std::vector<SharedBox> SharedBoxes(const Joined& a, const Joined& b) {
  std::vector<SharedBox> shared;
  if (a.boxes.size() * b.boxes.size() > kMaxBoxPairs || a.site.global_shape != b.site.global_shape ||
      a.site.dtype != b.site.dtype)
    return shared;
  std::set<Box> seen;
  for (const auto* side : {&a, &b}) {
    for (const auto& [box, held] : side->boxes) {
      SharedBox one;
      one.site = *held.begin()->second->site;
      const auto x = SumWithin(box, a, &one.segments_a), y = SumWithin(box, b, &one.segments_b);
      if (!x || !y || !seen.insert(box).second) continue;
      one.a = *x;
      one.b = *y;
      shared.push_back(std::move(one));
    }
  }
  return shared;
}

std::set<size_t> HoldersOf(const Joined& joined) {
  std::set<size_t> segments;
  for (const auto& [box, held] : joined.boxes) {
    for (const auto& [segment, part] : held) segments.insert(segment);
  }
  return segments;
}

// Ranks whose copies are not those that make up `whole`; none if no rank's copies do.
std::set<size_t> OddCopies(const Joined& joined, const Fingerprint& whole) {
  for (size_t candidate : HoldersOf(joined)) {
    Fingerprint sum;
    std::set<size_t> odd;
    for (const auto& [box, held] : joined.boxes) {
      const auto own = held.find(candidate);
      const Fingerprint& chosen = (own == held.end() ? held.begin() : own)->second->fingerprint;
      sum += chosen;
      for (const auto& [segment, part] : held) {
        if (part->fingerprint != chosen) odd.insert(segment);
      }
    }
    if (sum == whole) return odd;
  }
  return {};
}

// How the slot of one name compares.
struct SlotResult {
  enum Kind { kSame, kDiffers, kCopiesA, kCopiesB, kUnknown } kind = kUnknown;
  bool in_part = false;
  ArgumentReport argument;
  std::set<size_t> segments_a, segments_b;  // where it differs
  std::set<size_t> copies;                  // all that hold a copy of what differs among ranks
};

// The ranks of a side that hold the smallest box that differs.
std::set<size_t> Narrowest(const std::vector<SharedBox>& boxes, std::set<size_t> SharedBox::* holders) {
  std::set<size_t> found;
  for (const SharedBox& box : boxes) {
    if (box.a != box.b && (found.empty() || (box.*holders).size() < found.size())) found = box.*holders;
  }
  return found;
}

SlotResult CompareCopies(const Joined& whole, const Joined& copies, SlotResult::Kind kind) {
  SlotResult out;
  const std::set<size_t> odd = OddCopies(copies, whole.fingerprint);
  if (odd.empty()) return out;
  out.kind = kind;
  for (const auto& [box, held] : copies.boxes) {
    const Fingerprint& first = held.begin()->second->fingerprint;
    if (std::all_of(held.begin(), held.end(), [&](const auto& h) { return h.second->fingerprint == first; }))
      continue;
    for (const auto& [segment, part] : held) {
      out.copies.insert(segment);
      if (odd.contains(segment)) {
        out.argument = {*part->site, {}, part->fingerprint, {}};
      }
    }
    for (const auto& [segment, part] : held) {
      if (!odd.contains(segment)) out.argument.a = part->fingerprint;
    }
  }
  if (kind == SlotResult::kCopiesA) std::swap(out.argument.a, out.argument.b);
  (kind == SlotResult::kCopiesA ? out.segments_a : out.segments_b) = odd;
  return out;
}

SlotResult CompareSlots(const Joined& a, const Joined& b) {
  SlotResult out;
  if (a.site.global_shape != b.site.global_shape || a.site.dtype != b.site.dtype) return out;
  if (a.state == State::kWhole && b.state == State::kCopies) return CompareCopies(a, b, SlotResult::kCopiesB);
  if (a.state == State::kCopies && b.state == State::kWhole) return CompareCopies(b, a, SlotResult::kCopiesA);
  const bool whole = a.state == State::kWhole && b.state == State::kWhole;
  const auto usable = [](const Joined& j) { return j.state == State::kWhole || j.state == State::kPieces; };
  if (!usable(a) || !usable(b)) return out;
  if (whole && a.fingerprint == b.fingerprint) {
    out.kind = SlotResult::kSame;
    out.argument = {a.site, a.fingerprint, b.fingerprint, {}};
    return out;
  }
  const std::vector<SharedBox> boxes = SharedBoxes(a, b);
  if (!whole && boxes.empty()) return out;
  const auto differing = std::find_if(boxes.begin(), boxes.end(), [](const auto& x) { return x.a != x.b; });
  const bool differs = whole || differing != boxes.end();
  out.kind = differs ? SlotResult::kDiffers : SlotResult::kSame;
  out.in_part = !whole;
  if (whole) {
    out.argument = {a.site, a.fingerprint, b.fingerprint, {}};
  } else {
    const SharedBox& shown = differing == boxes.end() ? boxes.front() : *differing;
    out.argument = {shown.site, shown.a, shown.b, {}};
    out.argument.site.placement = Placement::kShard;
  }
  if (differs) {
    out.segments_a = Narrowest(boxes, &SharedBox::segments_a);
    out.segments_b = Narrowest(boxes, &SharedBox::segments_b);
    if (out.segments_a.empty()) out.segments_a = HoldersOf(a);
    if (out.segments_b.empty()) out.segments_b = HoldersOf(b);
  }
  return out;
}

// Slots of a name that say no logical tensor, against all: how badly its occurrences fit.
struct Fit {
  int64_t slots = 0, failures = 0;
};

std::map<int, Fit> FitsOf(const LogicalCalls& a, const LogicalCalls& b) {
  std::map<int, Fit> fits;
  for (const auto* side : {&a, &b}) {
    const auto& other = side == &a ? b.calls() : a.calls();
    for (const auto& [key, call] : side->calls()) {
      Fit& fit = fits[key.name];
      const bool alone = !other.contains(key);
      for (const auto& [slot, parts] : call.slots) {
        if (slot.partial) continue;
        ++fit.slots;
        const State state = Join(parts, slot.output).state;
        if (alone || state == State::kPieces || state == State::kUnlike) ++fit.failures;
      }
      if (call.slots.empty() && alone) ++fit.slots, ++fit.failures;
    }
  }
  return fits;
}

// Names whose occurrences do not correspond: another number of calls a micro-batch, or parts that tile only
// when taken together (a kernel that works through its tokens in blocks).
std::set<int> NamesToMerge(const LogicalCalls& a, const LogicalCalls& b, NameTable* names) {
  std::set<int> candidates, merged;
  const std::map<int, Fit> apart = FitsOf(a, b);
  for (const auto& [name, fit] : apart) {
    if (fit.failures > 0) candidates.insert(name);
  }
  if (candidates.empty()) return merged;
  const LogicalCalls x(a.segments(), candidates, names), y(b.segments(), candidates, names);
  const std::map<int, Fit> together = FitsOf(x, y);
  for (int name : candidates) {
    const Fit &p = apart.at(name), &q = together.at(name);
    if (q.failures * p.slots < p.failures * q.slots) merged.insert(name);
  }
  return merged;
}

std::string RanksText(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  }
  return text;
}

class LogicalComparer {
 public:
  LogicalComparer(const LogicalSide& side_a, const LogicalSide& side_b, const LogicalCalls& a,
                  const LogicalCalls& b)
      : side_a_(side_a), side_b_(side_b), a_(a), b_(b) {}

  SegmentDifference Run() {
    const LogicalCalls& leading = b_.segments().size() < a_.segments().size() ? b_ : a_;
    for (const CallKey& key : leading.InOrder()) {
      const auto x = a_.calls().find(key), y = b_.calls().find(key);
      if (x == a_.calls().end() || y == b_.calls().end()) continue;
      Compare(key, x->second, y->second);
    }
    for (const auto* side : {&a_, &b_}) {
      const auto& other = side == &a_ ? b_.calls() : a_.calls();
      for (const auto& [key, call] : side->calls()) {
        if (!other.contains(key) && PhaseIsRequired(call.site.phase)) ++out_.only_in_one;
      }
    }
    return std::move(out_);
  }

 private:
  // What the slots of a call that both have say together.
  struct Summary {
    bool input_differs = false, output_differs = false, partial_differs = false, partial_agrees = false;
    const SlotResult* copies = nullptr;
    std::string copies_role;
    std::vector<std::string> not_compared;        // inputs
    std::vector<const Part*> inputs_a, inputs_b;  // parts of the inputs that differ
    std::set<size_t> segments_a, segments_b;
    std::string role;  // of the first input that differs
  };

  void Compare(const CallKey& key, const LogicalCall& a, const LogicalCall& b) {
    ++out_.compared;
    Finding finding;
    finding.key = side_a_.segments.front()->key;
    finding.site = a.site;
    finding.site.micro_batch = -1;  // all of them
    finding.occurrence = a.occurrence;
    Summary summary;
    std::deque<SlotResult> results;
    for (const auto& [slot, parts] : a.slots) {
      const auto other = b.slots.find(slot);
      if (other == b.slots.end()) {
        // A partial sum, or what the kernels of a split call say to each other.
        if (!slot.partial && a.kernels == b.kernels) {
          ++out_.not_comparable;
          if (!slot.output) summary.not_compared.push_back(slot.name);
        }
        continue;
      }
      const Joined x = Join(parts, slot.output), y = Join(other->second, slot.output);
      if (x.state == State::kInProgress || y.state == State::kInProgress) continue;
      results.push_back(CompareSlots(x, y));
      Note(key, slot, x, y, results.back(), &summary, &finding);
    }
    for (const auto& [slot, parts] : b.slots) {
      if (!slot.output && !slot.partial && !a.slots.contains(slot) && a.kernels == b.kernels) {
        ++out_.not_comparable;
        summary.not_compared.push_back(slot.name);
      }
    }
    Judge(a, b, summary, std::move(finding));
  }

  void Note(const CallKey& key, const SlotKey& slot, const Joined& x, const Joined& y,
            const SlotResult& result, Summary* summary, Finding* finding) {
    if (result.kind == SlotResult::kUnknown) {
      if (!slot.partial) {
        ++out_.not_comparable;
        if (!slot.output) summary->not_compared.push_back(slot.name);
      }
      return;
    }
    ++out_.tensors;
    if (result.in_part) {
      ++out_.in_part;
      if (!slot.output) summary->not_compared.push_back("parts of " + slot.name);
    }
    if (result.kind == SlotResult::kCopiesA || result.kind == SlotResult::kCopiesB) {
      if (summary->copies == nullptr) {
        summary->copies = &result;
        summary->copies_role = slot.name;
      }
      return;
    }
    finding->arguments.push_back(result.argument);
    finding->arguments.back().site.output = slot.output;
    finding->arguments.back().site.role = slot.name;
    if (result.kind == SlotResult::kSame) {
      agreed_.insert({key, slot});
      if (slot.output && slot.partial) summary->partial_agrees = true;
      return;
    }
    // Who made a wrong partial sum, not who completed the sum.
    const bool first_partial =
        slot.output && slot.partial && !summary->partial_differs && !summary->input_differs;
    if (slot.output && slot.partial) summary->partial_differs = true;
    const bool first_input = !slot.output && !summary->input_differs;
    const bool first_output = slot.output && !summary->output_differs && !summary->input_differs;
    (slot.output ? summary->output_differs : summary->input_differs) = true;
    if (first_input || first_output || first_partial) {
      summary->segments_a = result.segments_a;
      summary->segments_b = result.segments_b;
    }
    if (first_input) {
      summary->role = slot.name;
      for (const auto* joined : {&x, &y}) {
        for (const auto& [box, held] : joined->boxes) {
          for (const auto& [segment, part] : held) {
            (joined == &x ? summary->inputs_a : summary->inputs_b).push_back(part);
          }
        }
      }
    }
  }

  void Judge(const LogicalCall& a, const LogicalCall& b, const Summary& summary, Finding finding) {
    std::string settings;
    for (const auto& [name, values] : a.floats) {
      const auto other = b.floats.find(name);
      if (other != b.floats.end() && values != other->second) settings += name + " differs; ";
    }
    const bool parted = !out_.findings.empty();
    if (a.site.kind == EventKind::kValue) return CompareValues(a, b, std::move(finding));
    SetPlace(summary.segments_a, summary.segments_b, a, b, &finding);
    if (summary.copies != nullptr && (!summary.input_differs || parted)) {
      if (parted) {
        ++out_.receivers;
      } else {
        AddCopies(summary, a, b, std::move(finding));
      }
      return;
    }
    if (!summary.input_differs && !summary.output_differs && settings.empty()) return;
    finding.detail = settings;
    const bool data = a.site.phase == Phase::kData;
    if (a.site.kind == EventKind::kTensor) {
      if (data || !parted) Add(data ? FindingKind::kData : FindingKind::kState, std::move(finding));
    } else if (summary.input_differs && !parted) {
      ExplainInput(summary, a, std::move(finding));
    } else if (summary.input_differs || (parted && (!settings.empty() || !summary.not_compared.empty()))) {
      ++out_.receivers;
    } else if (!settings.empty()) {
      Add(FindingKind::kSettings, std::move(finding));
    } else {
      NameKernels(a, b, summary, &finding);
      Add(FindingKind::kOrigin, std::move(finding));
    }
  }

  // Of a call that one layout splits: what of it can be at fault.
  void NameKernels(const LogicalCall& a, const LogicalCall& b, const Summary& summary, Finding* finding) {
    std::vector<std::string> kernels = a.kernels;
    const bool common = std::find_first_of(a.kernels.begin(), a.kernels.end(), b.kernels.begin(),
                                           b.kernels.end()) != a.kernels.end();
    if (!common) {  // one kernel is split into others
      const bool split_a = a.kernels.size() > 1;
      if (split_a) kernels = b.kernels;
      finding->detail += fmt::format("{} has it as {}; ", split_a ? 'A' : 'B',
                                     fmt::join(split_a ? a.kernels : b.kernels, ", "));
    }
    for (const std::string& kernel : b.kernels) {
      if (common && std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
        kernels.push_back(kernel);
    }
    if (summary.partial_differs) kernels.resize(1);
    if (summary.partial_agrees && !summary.partial_differs && kernels.size() > 1)
      kernels.erase(kernels.begin());
    finding->site.name = fmt::format("{}", fmt::join(kernels, " + "));
    if (kernels.size() > 1) {
      finding->between = true;
      finding->detail +=
          "the two layouts share nothing between these calls, so it arises in one of them or in what moved "
          "data "
          "between them; ";
    }
    if (!summary.not_compared.empty()) {
      finding->detail += fmt::format("not compared: {}; ", fmt::join(summary.not_compared, ", "));
    }
  }

  std::vector<int32_t> RanksOf(const std::set<size_t>& segments, const LogicalSide& side) const {
    std::vector<int32_t> ranks;
    for (size_t s : segments) ranks.push_back(side.ranks[s]);
    return ranks;
  }

  void SetPlace(const std::set<size_t>& segments_a, const std::set<size_t>& segments_b, const LogicalCall& a,
                const LogicalCall& b, Finding* finding) const {
    const auto event = [](const LogicalCall& call, const std::set<size_t>& segments) {
      for (size_t s : segments) {
        if (call.first_event[s] >= 0) return call.first_event[s];
      }
      for (int64_t e : call.first_event) {
        if (e >= 0) return e;
      }
      return int64_t{-1};
    };
    finding->ranks_a = RanksOf(segments_a, side_a_);
    finding->ranks_b = RanksOf(segments_b, side_b_);
    finding->event_a = event(a, segments_a);
    finding->event_b = event(b, segments_b);
  }

  void AddCopies(const Summary& summary, const LogicalCall& a, const LogicalCall& b, Finding finding) {
    const bool in_a = summary.copies->kind == SlotResult::kCopiesA;
    SetPlace(summary.copies->segments_a, summary.copies->segments_b, a, b, &finding);
    ArgumentReport argument = summary.copies->argument;
    argument.site.role = summary.copies_role;
    finding.arguments = {argument};
    const std::vector<int32_t> holders = RanksOf(summary.copies->copies, in_a ? side_a_ : side_b_);
    finding.detail =
        fmt::format("{} is held by {} of {}, whose copies differ: that of {} is not what the other run has",
                    summary.copies_role, RanksText(holders), in_a ? 'A' : 'B',
                    RanksText(in_a ? finding.ranks_a : finding.ranks_b));
    Add(FindingKind::kReplica, std::move(finding));
  }

  static std::string ValueText(uint64_t value) {
    return fmt::format("0x{:016x} ({})", value, std::bit_cast<double>(value));
  }

  void CompareValues(const LogicalCall& a, const LogicalCall& b, Finding finding) {
    std::set<uint64_t> all_a, all_b;
    bool one_a_rank = true;
    for (const auto& [segment, values] : a.values) {
      all_a.insert(values.begin(), values.end());
      one_a_rank = one_a_rank && values.size() == 1;
    }
    for (const auto& [segment, values] : b.values) {
      all_b.insert(values.begin(), values.end());
      one_a_rank = one_a_rank && values.size() == 1;
    }
    if (all_a == all_b && all_a.size() == 1) {
      ++out_.tensors;
      return;
    }
    if (!one_a_rank || (all_a.size() > 1 && all_b.size() > 1)) {
      ++out_.not_comparable;  // one for each micro-batch
      return;
    }
    ++out_.tensors;
    if (!out_.findings.empty()) return;
    std::set<size_t> none, segments_a, segments_b;
    for (const auto& [segment, values] : a.values) {
      if (all_b.size() > 1 || !all_b.contains(*values.begin())) segments_a.insert(segment);
    }
    for (const auto& [segment, values] : b.values) {
      if (all_a.size() > 1 || !all_a.contains(*values.begin())) segments_b.insert(segment);
    }
    SetPlace(segments_a, segments_b, a, b, &finding);
    if (all_a.size() == 1 && all_b.size() == 1) {
      finding.detail = fmt::format("{} against {}", ValueText(*all_a.begin()), ValueText(*all_b.begin()));
      return Add(FindingKind::kValue, std::move(finding));
    }
    const bool in_a = all_a.size() > 1;
    const std::set<uint64_t>& copies = in_a ? all_a : all_b;
    const uint64_t whole = *(in_a ? all_b : all_a).begin();
    if (!copies.contains(whole)) {
      finding.detail = fmt::format("ranks of {} differ, and none has the other run's {}", in_a ? 'A' : 'B',
                                   ValueText(whole));
      return Add(FindingKind::kValue, std::move(finding));
    }
    std::set<size_t> odd;
    for (const auto& [segment, values] : (in_a ? a : b).values) {
      if (!values.contains(whole)) odd.insert(segment);
    }
    SetPlace(in_a ? odd : none, in_a ? none : odd, a, b, &finding);
    const auto& odd_values = (in_a ? a : b).values.at(*odd.begin());
    finding.detail = fmt::format("{} of {} has {}, and its peers have {}",
                                 RanksText(in_a ? finding.ranks_a : finding.ranks_b), in_a ? 'A' : 'B',
                                 ValueText(*odd_values.begin()), ValueText(whole));
    Add(FindingKind::kReplica, std::move(finding));
  }

  // What made an input, back to what both runs have and agree on.
  struct Walk {
    std::vector<const Part*> made;    // outputs of calls in between, nearest first
    std::vector<std::string> agreed;  // what agrees before them
    bool nearest_agrees = false, has_maker = false;
  };
  Walk WalkBack(const LogicalCalls& side, const std::vector<const Part*>& inputs,
                const std::set<size_t>& segments) const {
    Walk walk;
    std::deque<std::pair<const Part*, int>> queue;
    std::set<std::pair<size_t, uint32_t>> seen;
    for (const Part* part : inputs) {
      if (segments.empty() || segments.contains(part->segment)) queue.emplace_back(part, 0);
    }
    while (!queue.empty()) {
      const auto [part, depth] = queue.front();
      queue.pop_front();
      const Part* maker = side.MakerOf(*part);
      while (maker != nullptr && !maker->site->output) maker = side.MakerOf(*maker);
      if (maker == nullptr) continue;
      walk.has_maker = true;
      const CallKey& key = side.KeyOf(maker->segment, maker->event);
      if (AgreedOutput(side, key, *maker)) {
        walk.nearest_agrees = walk.nearest_agrees || depth == 0;
        if (std::find(walk.agreed.begin(), walk.agreed.end(), maker->event_site->Place()) ==
            walk.agreed.end())
          walk.agreed.push_back(maker->event_site->Place());
        continue;
      }
      if (!seen.insert({maker->segment, maker->event}).second || seen.size() > 4096) continue;
      walk.made.push_back(maker);
      if (IsPaired(key)) continue;  // its inputs were compared
      for (const Part* input : side.InputsOf(*maker)) queue.emplace_back(input, depth + 1);
    }
    return walk;
  }

  bool IsPaired(const CallKey& key) const { return a_.calls().contains(key) && b_.calls().contains(key); }

  bool AgreedOutput(const LogicalCalls& side, const CallKey& key, const Part& maker) const {
    const auto call = side.calls().find(key);
    if (call == side.calls().end()) return false;
    for (const auto& [slot, parts] : call->second.slots) {
      if (!slot.output || !agreed_.contains({key, slot})) continue;
      for (const Part& part : parts) {
        if (part.segment == maker.segment && part.event == maker.event && part.tensor == maker.tensor)
          return true;
      }
    }
    return false;
  }

  static std::string NamesOf(const std::vector<const Part*>& parts) {
    std::vector<std::string> names;
    for (const Part* part : parts) {
      const std::string name = part->event_site->Place();
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    const size_t all = names.size();
    if (all > kMaxNamed) names.resize(kMaxNamed);
    return fmt::format("{}{}", fmt::join(names, ", "),
                       all > kMaxNamed ? fmt::format(" and {} more", all - kMaxNamed) : "");
  }

  // The first input that differs, while all that was compared before it agrees.
  void ExplainInput(const Summary& summary, const LogicalCall& call, Finding finding) {
    const Walk a = WalkBack(a_, summary.inputs_a, summary.segments_a);
    const Walk b = WalkBack(b_, summary.inputs_b, summary.segments_b);
    const std::string what = fmt::format("input {} of {} differs", summary.role, call.site.Place());
    if (a.made.empty() && b.made.empty()) {
      if (a.nearest_agrees || b.nearest_agrees) {
        const std::string maker = (a.nearest_agrees ? a : b).agreed.front();
        finding.detail = fmt::format("{}, and it was the same in both when {} had made it", what, maker);
        return Add(FindingKind::kChanged, std::move(finding));
      }
      finding.detail = what + ", and no recorded call of this iteration made it";
      return Add(FindingKind::kState, std::move(finding));
    }
    // The run that has more calls in between tells more.
    const bool in_b = a.made.empty() || (!b.made.empty() && b_.segments().size() >= a_.segments().size());
    const Part& nearest = *(in_b ? b : a).made.front();
    finding.site = *nearest.event_site;
    finding.site.micro_batch = -1;
    finding.occurrence = 0;
    finding.between = true;
    (in_b ? finding.event_b : finding.event_a) = static_cast<int64_t>(nearest.event);
    (in_b ? finding.event_a : finding.event_b) = -1;
    std::vector<std::string> agreed = a.agreed;
    for (const std::string& place : b.agreed) {
      if (std::find(agreed.begin(), agreed.end(), place) == agreed.end()) agreed.push_back(place);
    }
    if (agreed.size() > kMaxNamed) agreed.resize(kMaxNamed);
    finding.detail = fmt::format(
        "{}; the difference arises between {} and there, in {}{}{}, or in what moved the data", what,
        agreed.empty() ? std::string("what was compared before, which agrees,")
                       : fmt::format("{}, which agrees,", fmt::join(agreed, ", ")),
        a.made.empty() ? "" : "A's " + NamesOf(a.made), a.made.empty() || b.made.empty() ? "" : " or ",
        b.made.empty() ? "" : "B's " + NamesOf(b.made));
    Add(FindingKind::kOrigin, std::move(finding));
  }

  void Add(FindingKind kind, Finding finding) {
    finding.kind = kind;
    if (finding.detail.ends_with("; ")) finding.detail.resize(finding.detail.size() - 2);
    if (kind == FindingKind::kOrigin) ++out_.origins;
    if (out_.findings.size() < kMaxFindings) out_.findings.push_back(std::move(finding));
  }

  const LogicalSide &side_a_, &side_b_;
  const LogicalCalls &a_, &b_;
  std::set<std::pair<CallKey, SlotKey>> agreed_;
  SegmentDifference out_;
};

}  // namespace

SegmentDifference CompareLogically(const LogicalSide& a, const LogicalSide& b) {
  NameTable names;
  std::optional<LogicalCalls> calls_a(std::in_place, a.segments, std::set<int>(), &names);
  std::optional<LogicalCalls> calls_b(std::in_place, b.segments, std::set<int>(), &names);
  const std::set<int> merged = NamesToMerge(*calls_a, *calls_b, &names);
  if (!merged.empty()) {
    calls_a.emplace(a.segments, merged, &names);
    calls_b.emplace(b.segments, merged, &names);
  }
  return LogicalComparer(a, b, *calls_a, *calls_b).Run();
}

}  // namespace samestep
