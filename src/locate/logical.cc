#include "locate/logical.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "locate/segment_diff.h"

namespace samestep {
namespace {

constexpr size_t kMaxFindings = 16;
constexpr size_t kMaxParts = 4096;

// One part of a logical tensor, as one event had it.
struct Part {
  const TensorSite* site;
  Fingerprint fingerprint;
  size_t rank;
  bool updated;  // read and written under one role
};

// All that one side has of a logical call.
struct LogicalCall {
  Site site;
  int64_t occurrence = 0;
  int64_t first_event = 0;
  std::map<std::pair<bool, std::string>, std::vector<Part>> slots;  // inputs, then outputs, by role and lanes
  std::map<std::string, std::set<uint64_t>> floats;                 // attributes
  std::set<uint64_t> values;                                        // of a scalar result
};

using Calls = std::map<std::string, LogicalCall>;

std::string LogicalName(const Site& site) {
  return fmt::format("{}\n{}\n{}\n{}", static_cast<int>(site.kind), static_cast<int>(site.phase), site.module,
                     site.name);
}

bool IsUpdated(const Site& site, const TensorSite& tensor) {
  return std::any_of(site.tensors.begin(), site.tensors.end(), [&](const TensorSite& other) {
    return other.role == tensor.role && other.output != tensor.output;
  });
}

std::string SlotName(const TensorSite& tensor) {
  if (tensor.placement != Placement::kPartial) return tensor.role;
  return fmt::format("{} (lanes {} to {} of {})", tensor.role, tensor.lane_begin, tensor.lane_end,
                     tensor.lane_count);
}

// `merged`: names whose occurrences count as one.
Calls Collect(const std::vector<const Segment*>& segments, const std::set<std::string>& merged) {
  Calls calls;
  for (size_t rank = 0; rank < segments.size(); ++rank) {
    const Segment& segment = *segments[rank];
    const std::vector<int64_t> occurrences = OccurrencesOf(segment);
    for (size_t e = 0; e < segment.events.size(); ++e) {
      const Site& site = segment.site(e);
      if (site.kind == EventKind::kPhaseRollUp || site.kind == EventKind::kModuleRollUp) continue;
      const std::string name = LogicalName(site);
      const int64_t occurrence = merged.contains(name) ? 0 : occurrences[e];
      const auto [it, is_new] = calls.try_emplace(fmt::format("{}\n{}", name, occurrence));
      LogicalCall& call = it->second;
      if (is_new) {
        call.site = site;
        call.occurrence = occurrence;
        call.first_event = static_cast<int64_t>(e);
      }
      if (site.kind == EventKind::kValue) call.values.insert(segment.value(e, 0));
      for (size_t i = 0; i < site.attributes.size(); ++i) {
        if (site.attributes[i].is_float) call.floats[site.attributes[i].name].insert(segment.value(e, i));
      }
      for (size_t i = 0; i < site.tensors.size(); ++i) {
        const TensorSite& tensor = site.tensors[i];
        call.slots[{tensor.output, SlotName(tensor)}].push_back(
            {&tensor, segment.slot(e, i), rank, IsUpdated(site, tensor)});
      }
    }
  }
  return calls;
}

struct Whole {
  TensorSite site;  // the logical tensor
  Fingerprint fingerprint;
};

bool Disjoint(const TensorSite& a, const TensorSite& b) {
  for (int i = 0; i < a.shape.rank(); ++i) {
    if (a.offsets[i] + a.shape[i] <= b.offsets[i] || b.offsets[i] + b.shape[i] <= a.offsets[i]) return true;
  }
  return false;
}

bool TilesExactly(const std::vector<Part>& parts) {
  const TensorSite& first = *parts.front().site;
  int64_t elements = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorSite& one = *parts[i].site;
    if (one.global_shape != first.global_shape || one.dtype != first.dtype) return false;
    elements += one.shape.elements();
    for (size_t k = 0; k < i; ++k) {
      if (!Disjoint(one, *parts[k].site)) return false;
    }
  }
  return elements == first.global_shape.elements();
}

// Whether an input is an accumulator that the call writes several times: its values in between exist in one
// layout only.
bool InProgress(const LogicalCall& call, const std::string& slot) {
  const auto input = call.slots.find({false, slot});
  const auto output = call.slots.find({true, slot});
  return input != call.slots.end() && input->second.front().updated && output != call.slots.end() &&
         output->second.size() > 1;
}

// The logical tensor that these parts are; none where they do not say.
std::optional<Whole> WholeOf(const std::vector<Part>& parts, bool output) {
  // The same box, held or made several times.
  std::map<std::string, std::vector<const Part*>> boxes;
  for (const Part& part : parts) {
    boxes[part.site->offsets.ToString() + part.site->shape.ToString()].push_back(&part);
  }
  if (boxes.size() > kMaxParts) return {};
  std::vector<Part> distinct;
  for (const auto& [box, held] : boxes) {
    const bool updated = std::any_of(held.begin(), held.end(), [](const Part* p) { return p->updated; });
    if (updated && !output && held.size() > 1) return {};
    // Of an accumulator the last value of each rank counts; ranks must agree.
    std::map<size_t, const Part*> last;
    for (const Part* part : held) last[part->rank] = part;
    const auto same = [&](const Part* p) { return p->fingerprint == last.begin()->second->fingerprint; };
    const bool equal =
        updated ? std::all_of(last.begin(), last.end(), [&](const auto& l) { return same(l.second); })
                : std::all_of(held.begin(), held.end(), same);
    if (!equal) return {};
    distinct.push_back(*last.begin()->second);
  }
  if (!TilesExactly(distinct)) return {};
  Whole whole;
  whole.site = *distinct.front().site;
  whole.site.shape = whole.site.global_shape;
  for (int i = 0; i < whole.site.offsets.rank(); ++i) whole.site.offsets[i] = 0;
  for (const Part& part : distinct) whole.fingerprint += part.fingerprint;
  return whole;
}

// Names whose occurrences do not correspond: another number of calls a micro-batch, or parts that tile only
// when taken together (a kernel that works through its tokens in blocks).
std::set<std::string> NamesToMerge(const Calls& a, const Calls& b) {
  std::set<std::string> names;
  for (const Calls* side : {&a, &b}) {
    const Calls& other = side == &a ? b : a;
    for (const auto& [key, call] : *side) {
      bool merge = !other.contains(key);
      for (const auto& [slot, parts] : call.slots) merge = merge || !WholeOf(parts, slot.first);
      if (merge) names.insert(LogicalName(call.site));
    }
  }
  return names;
}

class LogicalComparer {
 public:
  explicit LogicalComparer(const SegmentKey& key) : key_(key) {}

  void Compare(const LogicalCall& a, const LogicalCall& b) {
    ++out_.compared;
    Finding finding;
    finding.key = key_;
    finding.site = a.site;
    finding.site.micro_batch = -1;  // all of them
    finding.occurrence = a.occurrence;
    finding.event_a = a.first_event;
    finding.event_b = b.first_event;
    bool input_differs = false, output_differs = false;
    for (const auto& [slot, parts] : a.slots) {
      const auto other = b.slots.find(slot);
      const auto x = WholeOf(parts, slot.first);
      const auto y = other == b.slots.end() ? std::nullopt : WholeOf(other->second, slot.first);
      if (!slot.first && (InProgress(a, slot.second) || InProgress(b, slot.second))) continue;
      if (!x || !y || x->site.global_shape != y->site.global_shape || x->site.dtype != y->site.dtype) {
        ++out_.not_comparable;
        continue;
      }
      finding.arguments.push_back({x->site, x->fingerprint, y->fingerprint, {}});
      if (x->fingerprint != y->fingerprint) (slot.first ? output_differs : input_differs) = true;
    }
    std::string settings;
    for (const auto& [name, values] : a.floats) {
      const auto other = b.floats.find(name);
      if (other != b.floats.end() && values != other->second) settings += name + " differs; ";
    }
    if (a.values.size() > 1 || b.values.size() > 1) {
      ++out_.not_comparable;  // one for each micro-batch
    } else if (a.values != b.values) {
      const uint64_t x = *a.values.begin(), y = *b.values.begin();
      settings += fmt::format("0x{:016x} ({}) against 0x{:016x} ({})", x, std::bit_cast<double>(x), y,
                              std::bit_cast<double>(y));
    }
    const bool parted = !out_.findings.empty();
    if (!input_differs && !output_differs && settings.empty()) return;
    finding.detail = settings;
    const EventKind kind = a.site.kind;
    const bool data = a.site.phase == Phase::kData;
    if (kind == EventKind::kTensor) {
      if (data || !parted) Add(data ? FindingKind::kData : FindingKind::kState, std::move(finding));
    } else if (kind == EventKind::kValue) {
      if (!parted) Add(FindingKind::kValue, std::move(finding));
    } else if (input_differs && !parted) {
      finding.detail = "an input differs, and no call that both layouts have made it";
      Add(FindingKind::kState, std::move(finding));
    } else if (input_differs || (!settings.empty() && parted)) {
      ++out_.receivers;
    } else {
      Add(settings.empty() ? FindingKind::kOrigin : FindingKind::kSettings, std::move(finding));
    }
  }

  void NotInBoth() { ++out_.not_comparable; }
  SegmentDifference Take() { return std::move(out_); }

 private:
  void Add(FindingKind kind, Finding finding) {
    finding.kind = kind;
    if (kind == FindingKind::kOrigin) ++out_.origins;
    if (out_.findings.size() < kMaxFindings) out_.findings.push_back(std::move(finding));
  }
  SegmentKey key_;
  SegmentDifference out_;
};

}  // namespace

SegmentDifference CompareLogically(const std::vector<const Segment*>& a,
                                   const std::vector<const Segment*>& b) {
  Calls calls_a = Collect(a, {}), calls_b = Collect(b, {});
  const std::set<std::string> merged = NamesToMerge(calls_a, calls_b);
  if (!merged.empty()) {
    calls_a = Collect(a, merged);
    calls_b = Collect(b, merged);
  }
  std::vector<std::pair<const std::string*, const LogicalCall*>> order;
  for (const auto& [key, call] : calls_a) order.emplace_back(&key, &call);
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
    return x.second->first_event < y.second->first_event;
  });
  LogicalComparer comparer(a.front()->key);
  for (const auto& [key, call] : order) {
    const auto other = calls_b.find(*key);
    if (other == calls_b.end()) {
      if (PhaseIsRequired(call->site.phase)) comparer.NotInBoth();
      continue;
    }
    comparer.Compare(*call, other->second);
  }
  for (const auto& [key, call] : calls_b) {
    if (!calls_a.contains(key) && PhaseIsRequired(call.site.phase)) comparer.NotInBoth();
  }
  return comparer.Take();
}

}  // namespace samestep
