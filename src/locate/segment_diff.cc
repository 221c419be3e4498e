#include "locate/segment_diff.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "locate/align.h"

namespace samestep {
namespace {

constexpr size_t kMaxFindings = 16;
constexpr size_t kMaxListed = 8;

std::array<bool, kPhaseCount> PhasesOf(const Segment& segment) {
  std::array<bool, kPhaseCount> has{};
  for (size_t e = 0; e < segment.events.size(); ++e) has[static_cast<size_t>(segment.site(e).phase)] = true;
  return has;
}

class Comparer {
 public:
  Comparer(const Segment& a, const Segment& b)
      : a_(a), b_(b), occurrences_a_(OccurrencesOf(a)), occurrences_b_(OccurrencesOf(b)) {
    SlotOwners(a_, &owners_a_);
    SlotOwners(b_, &owners_b_);
  }

  SegmentDifference Run() {
    const auto has_a = PhasesOf(a_), has_b = PhasesOf(b_);
    // Phases that depend on options count only where both have them.
    const auto counts = [&](Phase phase) {
      const auto p = static_cast<size_t>(phase);
      return PhaseIsRequired(phase) || (has_a[p] && has_b[p]);
    };
    std::unordered_map<std::string, int64_t> ids;
    const auto sequence = [&](const Segment& segment, std::vector<int64_t>* events) {
      std::vector<int64_t> identities;
      for (size_t e = 0; e < segment.events.size(); ++e) {
        if (!counts(segment.site(e).phase)) continue;
        events->push_back(static_cast<int64_t>(e));
        identities.push_back(ids.try_emplace(Identity(segment.site(e)), ids.size()).first->second);
      }
      return identities;
    };
    std::vector<int64_t> events_a, events_b;
    const auto ids_a = sequence(a_, &events_a), ids_b = sequence(b_, &events_b);
    std::vector<size_t> only_a, only_b;
    for (const Step& step : Align(ids_a, ids_b)) {
      const int64_t e = step.a < 0 ? -1 : events_a[static_cast<size_t>(step.a)];
      const int64_t f = step.b < 0 ? -1 : events_b[static_cast<size_t>(step.b)];
      if (f < 0) only_a.push_back(static_cast<size_t>(e));
      if (e < 0) only_b.push_back(static_cast<size_t>(f));
      if (e < 0 || f < 0) continue;
      AddControlFlow(&only_a, &only_b);
      ComparePair(static_cast<size_t>(e), static_cast<size_t>(f));
    }
    AddControlFlow(&only_a, &only_b);
    MarkMoved();
    return std::move(out_);
  }

 private:
  struct Owner {
    uint32_t event, tensor;
  };
  static void SlotOwners(const Segment& segment, std::vector<Owner>* owners) {
    for (size_t e = 0; e < segment.events.size(); ++e) {
      for (size_t i = 0; i < segment.site(e).tensors.size(); ++i) {
        owners->push_back({static_cast<uint32_t>(e), static_cast<uint32_t>(i)});
      }
    }
  }

  Finding Make(FindingKind kind, size_t e, size_t f) const {
    Finding finding;
    finding.kind = kind;
    finding.key = a_.key;
    finding.site = a_.site(e);
    finding.occurrence = occurrences_a_[e];
    finding.event_a = static_cast<int64_t>(e);
    finding.event_b = static_cast<int64_t>(f);
    const std::vector<TensorSite>& tensors = a_.site(e).tensors;
    if (tensors.size() == b_.site(f).tensors.size()) {
      for (size_t i = 0; i < tensors.size(); ++i) {
        finding.arguments.push_back({tensors[i], a_.slot(e, i), b_.slot(f, i), {}});
      }
    }
    return finding;
  }

  void Add(Finding finding) {
    if (finding.kind == FindingKind::kOrigin) ++out_.origins;
    if (out_.findings.size() < kMaxFindings) out_.findings.push_back(std::move(finding));
  }

  void ComparePair(size_t e, size_t f) {
    ++out_.compared;
    const Site &x = a_.site(e), &y = b_.site(f);
    if (x.tensors != y.tensors || x.attributes != y.attributes || x.version != y.version) {
      if (Parted()) {
        ++out_.receivers;
        return;
      }
      Finding finding = Make(FindingKind::kSettings, e, f);
      finding.detail = HowSitesDiffer(x, y);
      return Add(std::move(finding));
    }
    bool input_differs = false, output_differs = false;
    for (size_t i = 0; i < x.tensors.size(); ++i) {
      if (a_.slot(e, i) != b_.slot(f, i)) (x.tensors[i].output ? output_differs : input_differs) = true;
    }
    std::string settings;
    for (size_t i = 0; i < Segment::ValuesOf(x); ++i) {
      if (a_.value(e, i) != b_.value(f, i)) settings += HowValuesDiffer(x, i, a_.value(e, i), b_.value(f, i));
    }
    if (!input_differs && !output_differs && settings.empty()) return;
    // Whatever differs before anything else did is where the runs part; later, only what no difference before
    // it explains is a finding.
    if (x.kind == EventKind::kValue) {
      if (!Parted()) AddWith(FindingKind::kValue, e, f, settings);
    } else if (x.kind == EventKind::kTensor) {
      const bool data = x.phase == Phase::kData;
      if (data || !Parted()) AddWith(data ? FindingKind::kData : FindingKind::kState, e, f, "");
    } else if (input_differs) {
      CompareInputs(e, f);
    } else if (!settings.empty()) {
      if (Parted()) {
        ++out_.receivers;  // a factor made from values that differ already
      } else {
        AddWith(FindingKind::kSettings, e, f, settings);
      }
    } else {
      AddWith(FindingKind::kOrigin, e, f, "");
    }
  }

  void AddWith(FindingKind kind, size_t e, size_t f, const std::string& detail) {
    Finding finding = Make(kind, e, f);
    finding.detail = detail;
    Add(std::move(finding));
  }

  void CompareInputs(size_t e, size_t f) {
    for (size_t i = 0; i < a_.site(e).tensors.size(); ++i) {
      if (a_.site(e).tensors[i].output || a_.slot(e, i) == b_.slot(f, i)) continue;
      const auto maker_a = MakerOf(a_, owners_a_, e, i), maker_b = MakerOf(b_, owners_b_, f, i);
      if (maker_a && maker_b) {
        const Fingerprint& was_a = a_.slot(maker_a->event, maker_a->tensor);
        const Fingerprint& was_b = b_.slot(maker_b->event, maker_b->tensor);
        if (was_a == was_b) {
          Finding finding = Make(FindingKind::kChanged, e, f);
          const Site& maker = a_.site(maker_a->event);
          finding.detail = fmt::format("{} was the same in both when event {} ({}) had it", RoleOf(e, i),
                                       maker_a->event, maker.Place());
          return Add(std::move(finding));
        }
      }
      if (Parted()) continue;
      // All events before this one agree, or only one run has them.
      const auto& maker = maker_a ? maker_a : maker_b;
      const Segment& segment = maker_a ? a_ : b_;
      return AddWith(
          FindingKind::kState, e, f,
          maker ? fmt::format("{} differs; it was made by {}, which only one run has", RoleOf(e, i),
                              segment.site(maker->event).Place())
                : fmt::format("{} differs, and no recorded call of this iteration made it", RoleOf(e, i)));
    }
    ++out_.receivers;
  }

  std::string RoleOf(size_t e, size_t i) const { return "input " + a_.site(e).tensors[i].role; }

  static std::optional<Owner> MakerOf(const Segment& segment, const std::vector<Owner>& owners, size_t event,
                                      size_t tensor) {
    const uint32_t source = segment.definition(event).sources[tensor];
    if (source == 0) return {};
    return owners[segment.events[event].first_slot + tensor - source];
  }

  bool Parted() const { return !out_.findings.empty(); }

  static std::string HowValuesDiffer(const Site& site, size_t i, uint64_t a, uint64_t b) {
    if (site.kind == EventKind::kValue) {
      return fmt::format("0x{:016x} ({}) against 0x{:016x} ({})", a, std::bit_cast<double>(a), b,
                         std::bit_cast<double>(b));
    }
    const AttributeSite& attribute = site.attributes[i];
    if (!attribute.is_float) {
      return fmt::format("{} is {} against {}; ", attribute.name, static_cast<int64_t>(a),
                         static_cast<int64_t>(b));
    }
    const auto value = [](uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); };
    return fmt::format("{} is 0x{:08x} ({}) against 0x{:08x} ({}); ", attribute.name, a, value(a), b,
                       value(b));
  }

  static std::string HowSitesDiffer(const Site& x, const Site& y) {
    if (x.version != y.version) return fmt::format("kernel version {} against {}", x.version, y.version);
    if (x.tensors.size() != y.tensors.size()) {
      return fmt::format("{} arguments against {}", x.tensors.size(), y.tensors.size());
    }
    for (size_t i = 0; i < x.tensors.size(); ++i) {
      const TensorSite &s = x.tensors[i], &t = y.tensors[i];
      if (s == t) continue;
      return fmt::format("{}: {} {} at {} of {} against {}: {} {} at {} of {}", s.role, NameOf(s.dtype),
                         s.shape.ToString(), s.offsets.ToString(), s.global_shape.ToString(), t.role,
                         NameOf(t.dtype), t.shape.ToString(), t.offsets.ToString(),
                         t.global_shape.ToString());
    }
    return "other attributes";
  }

  // Events between two that both have, of which each run has some that the other lacks there.
  void AddControlFlow(std::vector<size_t>* only_a, std::vector<size_t>* only_b) {
    if (only_a->empty() && only_b->empty()) return;
    Finding finding;
    finding.kind = FindingKind::kControlFlow;
    finding.key = a_.key;
    const bool in_a = !only_a->empty();
    const size_t first = in_a ? only_a->front() : only_b->front();
    finding.site = in_a ? a_.site(first) : b_.site(first);
    finding.occurrence = in_a ? occurrences_a_[first] : occurrences_b_[first];
    if (!only_a->empty()) finding.event_a = static_cast<int64_t>(only_a->front());
    if (!only_b->empty()) finding.event_b = static_cast<int64_t>(only_b->front());
    for (size_t e : *only_a) lacking_b_[Identity(a_.site(e))].push_back(e);
    for (size_t f : *only_b) lacking_a_[Identity(b_.site(f))].push_back(f);
    for (size_t e : *only_a) {
      if (finding.only_a.size() < kMaxListed) finding.only_a.push_back(a_.site(e).Place());
    }
    for (size_t f : *only_b) {
      if (finding.only_b.size() < kMaxListed) finding.only_b.push_back(b_.site(f).Place());
    }
    finding.detail = fmt::format("{} calls only in A, {} only in B", only_a->size(), only_b->size());
    only_a->clear();
    only_b->clear();
    Add(std::move(finding));
  }

  // A call that one run lacks here and has elsewhere was moved.
  void MarkMoved() {
    size_t moved = 0;
    for (const auto& [identity, events] : lacking_b_) {
      const auto other = lacking_a_.find(identity);
      if (other != lacking_a_.end()) moved += std::min(events.size(), other->second.size());
    }
    for (Finding& finding : out_.findings) {
      if (finding.kind == FindingKind::kControlFlow && moved > 0) {
        finding.detail += fmt::format("; {} calls of this iteration stand at another place in B", moved);
      }
    }
  }

  const Segment &a_, &b_;
  std::vector<int64_t> occurrences_a_, occurrences_b_;
  std::vector<Owner> owners_a_, owners_b_;
  std::map<std::string, std::vector<size_t>> lacking_a_, lacking_b_;
  SegmentDifference out_;
};

}  // namespace

SegmentDifference CompareSegments(const Segment& a, const Segment& b) { return Comparer(a, b).Run(); }

}  // namespace samestep
