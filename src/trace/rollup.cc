#include "trace/rollup.h"

#include <xxhash.h>

#include "trace/bytes.h"

namespace samestep {
namespace {

void PutDigest(const Digest& digest, ByteWriter* out) { out->Fixed(digest.low, 8).Fixed(digest.high, 8); }

Digest GetDigest(ByteReader* in) {
  Digest digest;
  digest.low = in->Fixed(8);
  digest.high = in->Fixed(8);
  return digest;
}

void PutContent(const RollUp& r, ByteWriter* out) {
  PutDigest(r.required, out);
  for (const Digest& phase : r.phases) PutDigest(phase, out);
}

// A record of plain numbers in memory is its little-endian form on the machines that are supported.
template <typename T>
std::string_view BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

std::string RollUp::Bytes() const {
  ByteWriter out;
  out.Fixed(static_cast<uint64_t>(key.number()), 8).Fixed(end, 8);
  PutContent(*this, &out);
  PutDigest(chain, &out);
  out.Fixed(events, 4).Fixed(0, 4);
  out.Fixed(XXH3_64bits(out.bytes().data(), out.size()), 8);
  SAMESTEP_CHECK_EQ(out.size(), kBytes);
  return out.bytes();
}

Result<RollUp> RollUp::Parse(std::string_view bytes) {
  RollUp r;
  ByteReader in(bytes);
  r.key = SegmentKey::FromNumber(static_cast<int64_t>(in.Fixed(8)));
  r.end = in.Fixed(8);
  r.required = GetDigest(&in);
  for (Digest& phase : r.phases) phase = GetDigest(&in);
  r.chain = GetDigest(&in);
  r.events = static_cast<uint32_t>(in.Fixed(4));
  in.Fixed(4);
  const uint64_t checksum = in.Fixed(8);
  if (!in.AtEnd() || checksum != XXH3_64bits(bytes.data(), kBytes - 8)) {
    return InvalidError("the checksum of a roll-up does not fit its {} bytes", bytes.size());
  }
  return r;
}

void RollUp::Link(const Digest& previous) {
  ByteWriter out;
  out.Fixed(static_cast<uint64_t>(key.number()), 8);
  PutContent(*this, &out);
  chain = ChainDigest(previous, out.bytes());
}

bool RollUp::Agrees(const RollUp& other) const {
  if (key != other.key || required != other.required) return false;
  for (size_t i = 0; i < phases.size(); ++i) {
    const bool both = phases[i] != Digest() && other.phases[i] != Digest();
    if (both && phases[i] != other.phases[i]) return false;
  }
  return true;
}

void RollUpBuilder::Add(const Definition& definition, std::span<const uint64_t> values,
                        std::span<const Fingerprint> slots, uint64_t first_slot) {
  const Site& site = definition.site;
  const auto add = [&](DigestBuilder* builder) {
    const std::array<uint64_t, 2> id = {definition.digest.high, definition.digest.low};
    builder->Add(BytesOf(std::span<const uint64_t>(id)));
    builder->Add(BytesOf(values));
    builder->Add(BytesOf(slots));
  };
  if (PhaseIsRequired(site.phase)) {
    add(&required_);
    any_required_ = true;
  }
  auto& phase = phases_[static_cast<size_t>(site.phase)];
  if (!phase) phase.emplace();
  add(&*phase);
  if (site.kind == EventKind::kCall) AddToGroup(definition, values, slots, first_slot);
}

void RollUpBuilder::AddToGroup(const Definition& definition, std::span<const uint64_t> values,
                               std::span<const Fingerprint> slots, uint64_t first_slot) {
  if (level_ != Level::kPhase && level_ != Level::kModule) return;
  const Site& site = definition.site;
  const bool same = group_ && group_->site.phase == site.phase &&
                    group_->site.micro_batch == site.micro_batch &&
                    (level_ == Level::kPhase || group_->site.module == site.module);
  if (!same) {
    EndGroup();
    group_.emplace();
    group_->site.phase = site.phase;
    group_->site.micro_batch = site.micro_batch;
    if (level_ == Level::kModule) group_->site.module = site.module;
    group_->site.kind = level_ == Level::kModule ? EventKind::kModuleRollUp : EventKind::kPhaseRollUp;
    group_->first_slot = first_slot;
  }
  ++group_->calls;
  // What is computed belongs to the outputs' side, with the program of calls; what came from outside, to the
  // inputs': a group whose inputs agree and whose outputs differ is an origin.
  const std::array<uint64_t, 2> id = {definition.digest.high, definition.digest.low};
  group_->inputs.Add(BytesOf(std::span<const uint64_t>(id)));
  group_->inputs.Add(BytesOf(values));
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint64_t slot = first_slot + i, source = definition.sources[i];
    const bool made_inside = source != 0 && slot - source >= group_->first_slot;
    if (site.tensors[i].output) {
      group_->outputs.Add(BytesOf(slots.subspan(i, 1)));
    } else if (!made_inside) {
      group_->inputs.Add(BytesOf(slots.subspan(i, 1)));
    }
  }
}

void RollUpBuilder::EndGroup() {
  if (!group_) return;
  Group group;
  group.site = group_->site;
  group.site.attributes = {{"calls", false}};
  group.site.tensors.resize(2);
  group.site.tensors[0].role = "inputs";
  group.site.tensors[1].role = "outputs";
  group.site.tensors[1].output = true;
  group.digests = {group_->inputs.Finish(), group_->outputs.Finish()};
  group.calls = group_->calls;
  ended_.push_back(std::move(group));
  group_.reset();
}

std::vector<Group> RollUpBuilder::TakeGroups() { return std::exchange(ended_, {}); }

RollUp RollUpBuilder::Finish(const SegmentKey& key) {
  RollUp r;
  r.key = key;
  if (any_required_) r.required = required_.Finish();
  for (size_t i = 0; i < phases_.size(); ++i) {
    if (phases_[i]) r.phases[i] = phases_[i]->Finish();
    phases_[i].reset();
  }
  required_.Reset();
  any_required_ = false;
  return r;
}

}  // namespace samestep
