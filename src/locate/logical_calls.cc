#include "locate/logical_calls.h"

#include <algorithm>
#include <array>
#include <queue>

namespace samestep {
namespace {

// Kernels that split one kernel's work: they count as it.
struct SplitKernel {
  std::string_view name, whole;
};
constexpr std::array<SplitKernel, 3> kSplitKernels = {{{"cross_entropy.max", "cross_entropy"},
                                                       {"cross_entropy.sum", "cross_entropy"},
                                                       {"cross_entropy.loss", "cross_entropy"}}};
// The arguments of these that the whole kernel has, too; others are what they say to each other.
constexpr std::array<std::string_view, 5> kSharedRoles = {"logits", "targets", "loss", "row_max", "row_sum"};
// Kernels whose outputs may be partial sums over tensor lanes, which sums in the same module complete.
constexpr std::array<std::string_view, 2> kReduced = {"linear.forward", "linear.backward_data"};
constexpr std::array<std::string_view, 2> kReductions = {"sum.tree", "sum.bias"};
// What a call adds up of its own rank only; the total shows as a value.
struct RankLocal {
  std::string_view kernel, role;
};
constexpr std::array<RankLocal, 3> kRankLocal = {
    {{"exact_sum.values", "state"}, {"exact_sum.squares", "state"}, {"adamw", "fingerprint"}}};

template <size_t N>
bool IsOneOf(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view WholeKernel(std::string_view name) {
  for (const SplitKernel& split : kSplitKernels) {
    if (split.name == name) return split.whole;
  }
  return name;
}

bool IsRankLocal(const Site& site, const TensorSite& tensor) {
  return std::any_of(kRankLocal.begin(), kRankLocal.end(), [&](const RankLocal& local) {
    return local.kernel == site.name && local.role == tensor.role;
  });
}

bool IsPartial(const TensorSite& tensor) {
  return tensor.placement == Placement::kPartial && tensor.lane_end - tensor.lane_begin < tensor.lane_count;
}

bool IsUpdated(const Site& site, const TensorSite& tensor) {
  return std::any_of(site.tensors.begin(), site.tensors.end(), [&](const TensorSite& other) {
    return other.role == tensor.role && other.output != tensor.output;
  });
}

SlotKey SlotOf(const TensorSite& tensor, const std::string& role) {
  if (!IsPartial(tensor)) return {tensor.output, false, role};
  return {tensor.output, true,
          fmt::format("{} (lanes {} to {} of {})", role, tensor.lane_begin, tensor.lane_end - 1,
                      tensor.lane_count)};
}

const std::string& OutputRole(const Site& site) {
  static const std::string kNone;
  for (const TensorSite& tensor : site.tensors) {
    if (tensor.output) return tensor.role;
  }
  return kNone;
}

// Where the last linear of a module stands whose output a sum may complete.
std::string PlaceOfReduction(const Site& site) {
  return fmt::format("{}\n{}\n{}", static_cast<int>(site.phase), site.micro_batch, site.module);
}

bool IsRollUp(const Site& site) {
  return site.kind == EventKind::kPhaseRollUp || site.kind == EventKind::kModuleRollUp;
}

}  // namespace

Joined Join(const std::vector<Part>& parts, bool output) {
  Joined joined;
  joined.site = *parts.front().site;
  joined.site.shape = joined.site.global_shape;
  for (int i = 0; i < joined.site.offsets.rank(); ++i) joined.site.offsets[i] = 0;
  if (!IsPartial(joined.site)) joined.site.placement = Placement::kShard;
  bool unlike = false, in_progress = false;
  for (const Part& part : parts) {
    if (part.site->global_shape != joined.site.global_shape || part.site->dtype != joined.site.dtype)
      return joined;
    const auto [it, is_new] = joined.boxes[BoxOf(*part.site)].try_emplace(part.segment, &part);
    if (is_new) continue;
    const bool updated = part.updated || it->second->updated;
    in_progress = in_progress || (updated && !output);
    unlike = unlike || (!updated && part.fingerprint != it->second->fingerprint);
    it->second = &part;
  }
  if (unlike || in_progress) {
    joined.state = in_progress ? Joined::State::kInProgress : Joined::State::kUnlike;
    return joined;
  }
  bool copies = false;
  std::vector<Box> boxes;
  for (const auto& [box, held] : joined.boxes) {
    boxes.push_back(box);
    const Fingerprint& first = held.begin()->second->fingerprint;
    joined.fingerprint += first;
    for (const auto& [segment, part] : held) copies = copies || part->fingerprint != first;
  }
  joined.state = !Tiles(boxes, BoxOf(joined.site)) ? Joined::State::kPieces
                 : copies                          ? Joined::State::kCopies
                                                   : Joined::State::kWhole;
  return joined;
}

LogicalCalls::LogicalCalls(const std::vector<const Segment*>& segments, const std::set<int>& merged,
                           NameTable* names)
    : segments_(segments), keys_(segments.size()), all_parts_(segments.size()) {
  for (size_t s = 0; s < segments.size(); ++s) Add(s, merged, names);
}

// What a definition says of all events that have it, found once.
struct LogicalCalls::Known {
  int name = -1;  // none: a roll-up, or a sum that completes a linear
  bool reduction = false, reduced = false, split = false;
  std::string place;  // of a linear and its reduction
  std::vector<bool> updated, dropped;
  std::vector<SlotKey> slots;
};

LogicalCalls::Known LogicalCalls::KnownOf(const Site& site, NameTable* names) {
  Known known;
  known.reduction = site.phase != Phase::kReduce && IsOneOf(site.name, kReductions);
  known.reduced = IsOneOf(site.name, kReduced);
  known.split = WholeKernel(site.name) != site.name;
  if (known.reduction || known.reduced) known.place = PlaceOfReduction(site);
  for (const TensorSite& tensor : site.tensors) {
    known.updated.push_back(IsUpdated(site, tensor));
    // Which lanes a gradient's reduction stands for, those of data or of tokens, its site does not say.
    known.dropped.push_back(
        IsRankLocal(site, tensor) || (known.split && !IsOneOf(tensor.role, kSharedRoles)) ||
        (site.phase == Phase::kReduce && site.name == "sum.tree" && tensor.output && IsPartial(tensor)));
    known.slots.push_back(SlotOf(tensor, tensor.role));
  }
  if (IsRollUp(site)) return known;
  const std::string name = fmt::format("{}\n{}\n{}\n{}", static_cast<int>(site.kind),
                                       static_cast<int>(site.phase), site.module, WholeKernel(site.name));
  known.name = names->try_emplace(name, static_cast<int>(names->size())).first->second;
  return known;
}

void LogicalCalls::Add(size_t s, const std::set<int>& merged, NameTable* names) {
  const Segment& segment = *segments_[s];
  const std::vector<int64_t> occurrences = OccurrencesOf(segment);
  std::unordered_map<const Definition*, Known> definitions;
  std::unordered_map<std::string, std::pair<CallKey, std::string>> reducible;  // and the role of its output
  all_parts_[s].reserve(segment.slots.size());
  keys_[s].assign(segment.events.size(), {-1, 0});
  for (size_t e = 0; e < segment.events.size(); ++e) {
    const Site& site = segment.site(e);
    const auto [at, is_first] = definitions.try_emplace(&segment.definition(e));
    if (is_first) at->second = KnownOf(site, names);
    const Known& known = at->second;
    for (size_t i = 0; i < site.tensors.size(); ++i) {
      all_parts_[s].push_back({&site.tensors[i], &site, segment.slot(e, i), s, static_cast<uint32_t>(e),
                               static_cast<uint32_t>(i), known.updated[i]});
    }
    if (known.name < 0) continue;
    CallKey key{known.name, merged.contains(known.name) ? 0 : occurrences[e]};
    std::string role;  // under which a reduction's output counts
    if (known.reduction) {
      const auto last = reducible.find(known.place);
      if (last != reducible.end()) std::tie(key, role) = last->second;
    }
    if (known.reduced) reducible[known.place] = {key, OutputRole(site)};
    keys_[s][e] = key;
    const auto [it, is_new] = calls_.try_emplace(key);
    LogicalCall& call = it->second;
    if (is_new) {
      call.site = site;
      call.occurrence = key.occurrence;
      call.first_event.assign(segments_.size(), -1);
    }
    if (call.first_event[s] < 0) call.first_event[s] = static_cast<int64_t>(e);
    if (std::find(call.kernels.begin(), call.kernels.end(), site.name) == call.kernels.end())
      call.kernels.push_back(site.name);
    if (site.kind == EventKind::kValue) call.values[s].insert(segment.value(e, 0));
    for (size_t i = 0; i < site.attributes.size(); ++i) {
      if (site.attributes[i].is_float) call.floats[site.attributes[i].name].insert(segment.value(e, i));
    }
    AddTensors(s, e, known, role, &call);
  }
}

// `role`: of a reduction, the role of the output that it completes.
void LogicalCalls::AddTensors(size_t s, size_t e, const Known& known, const std::string& role,
                              LogicalCall* call) {
  const Segment& segment = *segments_[s];
  const Site& site = segment.site(e);
  const bool completes = !role.empty();
  for (size_t i = 0; i < site.tensors.size(); ++i) {
    if (known.dropped[i]) continue;
    const TensorSite& tensor = site.tensors[i];
    // What the calls of one logical call pass on to each other is its own business.
    if (!tensor.output && completes && tensor.role != "bias") continue;
    const Part& part = all_parts_[s][segment.events[e].first_slot + i];
    const SlotKey slot = completes && tensor.output ? SlotOf(tensor, role) : known.slots[i];
    if ((known.split || completes) && Supersedes(part, slot, call)) continue;
    call->slots[slot].push_back(part);
  }
}

// Of the calls that are one, the last that writes a box says what it is, and the first that reads it.
bool LogicalCalls::Supersedes(const Part& part, const SlotKey& slot, LogicalCall* call) {
  const auto earlier = [&](const SlotKey& in) -> Part* {
    const auto found = call->slots.find(in);
    if (found == call->slots.end()) return nullptr;
    for (auto it = found->second.rbegin(); it != found->second.rend() && it->segment == part.segment; ++it) {
      if (it->event_site->name != part.event_site->name &&
          it->event_site->micro_batch == part.event_site->micro_batch &&
          BoxOf(*it->site) == BoxOf(*part.site))
        return &*it;
    }
    return nullptr;
  };
  Part* before = earlier(slot);
  if (slot.output) {
    if (before != nullptr) *before = part;
    return before != nullptr;
  }
  return before != nullptr || earlier({true, slot.partial, slot.name}) != nullptr;
}

const Part* LogicalCalls::MakerOf(const Part& part) const {
  const Segment& segment = *segments_[part.segment];
  const uint32_t source = segment.definition(part.event).sources[part.tensor];
  if (source == 0) return nullptr;
  return &all_parts_[part.segment][segment.events[part.event].first_slot + part.tensor - source];
}

std::vector<const Part*> LogicalCalls::InputsOf(const Part& part) const {
  std::vector<const Part*> inputs;
  const Segment& segment = *segments_[part.segment];
  const Site& site = segment.site(part.event);
  for (size_t i = 0; i < site.tensors.size(); ++i) {
    if (!site.tensors[i].output)
      inputs.push_back(&all_parts_[part.segment][segment.events[part.event].first_slot + i]);
  }
  return inputs;
}

std::vector<CallKey> LogicalCalls::InOrder() const {
  struct Node {
    std::set<CallKey> after;
    size_t before = 0;
  };
  std::map<CallKey, Node> nodes;
  const auto precedes = [&](const CallKey& x, const CallKey& y) {
    if (x != y && nodes[x].after.insert(y).second) ++nodes[y].before;
  };
  std::map<std::pair<uint64_t, uint64_t>, std::pair<size_t, CallKey>> made;  // by what a call wrote
  for (const auto& [key, call] : calls_) nodes.try_emplace(key);
  for (size_t s = 0; s < segments_.size(); ++s) {
    std::vector<std::pair<int64_t, CallKey>> chain;
    for (const auto& [key, call] : calls_) {
      if (call.first_event[s] >= 0) chain.emplace_back(call.first_event[s], key);
    }
    std::sort(chain.begin(), chain.end());
    for (size_t i = 1; i < chain.size(); ++i) precedes(chain[i - 1].second, chain[i].second);
    if (segments_.size() == 1) break;
    for (const Part& part : all_parts_[s]) {
      if (part.site->output && keys_[s][part.event].name >= 0)
        made.try_emplace({part.fingerprint.a, part.fingerprint.b}, s, keys_[s][part.event]);
    }
  }
  for (size_t s = 0; s < segments_.size() && segments_.size() > 1; ++s) {
    for (const Part& part : all_parts_[s]) {
      const CallKey& key = keys_[s][part.event];
      if (part.site->output || key.name < 0 || segments_[s]->definition(part.event).sources[part.tensor] != 0)
        continue;
      const auto maker = made.find({part.fingerprint.a, part.fingerprint.b});
      // Later phases do not come before earlier ones, whatever happens to have the same content.
      if (maker == made.end() || maker->second.first == s) continue;
      if (calls_.at(maker->second.second).site.phase <= calls_.at(key).site.phase)
        precedes(maker->second.second, key);
    }
  }
  const auto rank_of = [&](const CallKey& key) {
    const LogicalCall& call = calls_.at(key);
    int64_t first = INT64_MAX;
    for (int64_t e : call.first_event) {
      if (e >= 0) first = std::min(first, e);
    }
    return std::make_tuple(call.site.phase, first, key);
  };
  using Entry = decltype(rank_of(CallKey()));
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::set<Entry> left;
  for (const auto& [key, node] : nodes) {
    left.insert(rank_of(key));
    if (node.before == 0) ready.push(rank_of(key));
  }
  std::vector<CallKey> order;
  while (!left.empty()) {
    if (ready.empty()) ready.push(*left.begin());  // a circle, as calls that count as one can make
    const Entry entry = ready.top();
    ready.pop();
    if (left.erase(entry) == 0) continue;
    const CallKey key = std::get<2>(entry);
    order.push_back(key);
    for (const CallKey& next : nodes[key].after) {
      if (--nodes[next].before == 0) ready.push(rank_of(next));
    }
  }
  return order;
}

}  // namespace samestep
