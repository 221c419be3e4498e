// rollup.h: digests over the events of a segment, so that a comparison skips what agrees.
//
//   RollUpBuilder builder;
//   for (each event) builder.Add(definition, values, slots, first_slot);
//   RollUp r = builder.Finish(key);          // of the whole segment and of each phase
//
// The same events give the same roll-ups at the levels phase, module, kernel and kernel-reread. They hold
// what happened in the order in which it happened: sites, values, fingerprints. They do not hold where inputs
// came from, since that depends on what memory was reused.
//
// Determinism: XXH3-128 over canonical records in execution order.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/event.h"

namespace samestep {

struct RollUp {
  SegmentKey key;
  Digest required;                         // all events of required phases, in order
  std::array<Digest, kPhaseCount> phases;  // each phase's events; Digest() where it has none
  uint32_t events = 0;                     // as the level records them
  uint64_t end = 0;                        // file offset behind this segment's blocks
  Digest chain;                            // over this file's segments up to this one

  static constexpr size_t kBytes = 16 + 16 * (2 + kPhaseCount) + 16;
  std::string Bytes() const;  // kBytes, the last 8 a checksum
  static Result<RollUp> Parse(std::string_view bytes);
  // chain = XXH3-128(previous chain, key, required, phases).
  void Link(const Digest& previous);
  // Equal in all that both runs are bound to have.
  bool Agrees(const RollUp& other) const;
};

// The roll-up event of a run of calls that stand in one phase or module.
struct Group {
  Site site;  // kind kPhaseRollUp or kModuleRollUp
  std::array<Digest, 2> digests;
  uint64_t calls = 0;
};

// A group whose calls still come. Outside of the class that holds it, since clang finds no default
// constructor of a nested one there.
struct OpenGroup {
  Site site;
  uint64_t first_slot = 0, calls = 0;
  DigestBuilder inputs, outputs;
};

class RollUpBuilder {
 public:
  // At the levels kPhase and kModule, groups are made, too.
  explicit RollUpBuilder(Level level = Level::kKernel) : level_(level) {}
  void Add(const Definition& definition, std::span<const uint64_t> values, std::span<const Fingerprint> slots,
           uint64_t first_slot);
  // The groups that have ended since the last call.
  std::vector<Group> TakeGroups();
  void EndGroup();
  RollUp Finish(const SegmentKey& key);  // and begins the next segment

 private:
  void AddToGroup(const Definition& definition, std::span<const uint64_t> values,
                  std::span<const Fingerprint> slots, uint64_t first_slot);
  Level level_;
  DigestBuilder required_;
  bool any_required_ = false;
  std::array<std::optional<DigestBuilder>, kPhaseCount> phases_;
  std::optional<OpenGroup> group_;
  std::vector<Group> ended_;
};

}  // namespace samestep
