// event.h: what a trace says: events, where they stand, and the tensors they read and wrote.
//
//   for (size_t i = 0; i < segment.events.size(); ++i) {
//     const Site& site = segment.site(i);                     // phase, module, kernel, arguments
//     const Fingerprint& f = segment.slot(i, 0);              // of the first argument
//   }
//
// An event is a call of a kernel, a tensor that no kernel made, a scalar result, or the roll-up of the calls
// of a phase or a module. All of it that repeats from iteration to iteration is its site, which a file holds
// once.
//
// Determinism: sites have one canonical form; numbers here are part of the format (docs/formats/trace.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fingerprint/digest.h"
#include "fingerprint/fingerprint.h"
#include "kernels/call.h"

namespace samestep {

inline constexpr int kTraceSchema = 1;
inline constexpr int kPhaseCount = 8;

enum class Level : uint8_t { kIteration = 0, kPhase = 1, kModule = 2, kKernel = 3, kKernelReread = 4 };
std::string_view LevelName(Level level);
std::optional<Level> LevelNamed(std::string_view name);

// Names of the phases without the library of kernels (a test holds them to NameOf).
std::string_view PhaseName(Phase phase);

// Whether every run of a recipe has the phase. The others (recomputation, checkpoints, evaluation) depend on
// options that change no bit: they are compared only where both runs have them.
constexpr bool PhaseIsRequired(Phase phase) {
  return phase != Phase::kRecompute && phase != Phase::kCheckpoint && phase != Phase::kEvaluate;
}

enum class EventKind : uint8_t { kCall = 0, kTensor = 1, kValue = 2, kPhaseRollUp = 3, kModuleRollUp = 4 };
std::string_view KindName(EventKind kind);

// One tensor that an event read (input) or wrote (output). An argument that is updated is both.
// Of a roll-up: the digest of all that its calls read from outside, and of all that they wrote.
struct TensorSite {
  std::string role;
  bool output = false;
  DType dtype = DType::kF32;
  Shape shape, global_shape, offsets;
  Placement placement = Placement::kShard;
  int32_t lane_begin = 0, lane_end = 1, lane_count = 1;
  bool operator==(const TensorSite&) const = default;
  bool whole() const { return shape == global_shape; }
};
TensorSite TensorSiteOf(std::string_view role, bool output, const TensorView& view);

struct AttributeSite {
  std::string name;
  bool is_float = false;
  bool operator==(const AttributeSite&) const = default;
};

struct Site {
  EventKind kind = EventKind::kCall;
  Phase phase = Phase::kData;
  int32_t micro_batch = 0;
  std::string module;
  std::string name;     // of the kernel, tensor or value
  int32_t version = 0;  // of the kernel
  std::vector<AttributeSite> attributes;
  std::vector<TensorSite> tensors;  // inputs, then outputs
  bool operator==(const Site&) const = default;
  std::string Place() const;  // "forward model.layers.0.mlp rms_norm.forward"
};

// A site with where its inputs came from: sources[i] is how many slots before tensor i's slot the same
// content stands in this segment (written or read by an earlier event); 0: read from memory for the first
// time.
struct Definition {
  Site site;
  std::vector<uint32_t> sources;
  bool reread = false;  // fingerprints of inputs with a source are stored, too (level kernel-reread)
  Digest digest;        // of the site
};

// Canonical bytes of a site, and back.
std::string SiteBytes(const Site& site);
Result<Site> ParseSite(std::string_view bytes);
std::string DefinitionBytes(const Definition& definition);
Result<Definition> ParseDefinition(std::string_view bytes);

// A place in a run: an iteration, or what happened after it and before the next (evaluation, checkpoints).
// What came before the first iteration is after iteration 0.
struct SegmentKey {
  int64_t iteration = 0;
  bool after = false;
  auto operator<=>(const SegmentKey&) const = default;
  int64_t number() const { return iteration * 2 + (after ? 1 : 0); }
  static SegmentKey FromNumber(int64_t n) { return {n >> 1, (n & 1) != 0}; }
  std::string ToString() const;
};

struct Event {
  uint32_t definition = 0;
  uint32_t first_slot = 0;
  uint32_t first_value = 0;
};

// The events of one segment. Each definition's tensors have consecutive slots, its attributes consecutive
// values (integers as two's complement, floats by their bits; a value event: the 64 bits).
struct Segment {
  SegmentKey key;
  std::vector<Event> events;
  std::vector<Fingerprint> slots;
  std::vector<uint64_t> values;
  const std::vector<std::unique_ptr<const Definition>>* definitions = nullptr;

  const Definition& definition(size_t event) const { return *(*definitions)[events[event].definition]; }
  const Site& site(size_t event) const { return definition(event).site; }
  const Fingerprint& slot(size_t event, size_t tensor) const {
    return slots[events[event].first_slot + tensor];
  }
  uint64_t value(size_t event, size_t attribute) const {
    return values[events[event].first_value + attribute];
  }
  static size_t ValuesOf(const Site& site) {
    return site.kind == EventKind::kValue ? 1 : site.attributes.size();
  }
};

// What makes two events of a layout the same one, but for how often it came before.
std::string Identity(const Site& site);
// How often each event's identity came before it in its segment.
std::vector<int64_t> OccurrencesOf(const Segment& segment);

// What the first block of a file says.
struct TraceHeader {
  int schema = kTraceSchema;
  std::string numerics;       // "fma-1"
  std::string recipe_digest;  // of all that shapes the trajectory
  std::map<std::string, std::string>
      software;  // {"samestep": "0.1.0", "compiler": …}: differences are warned of
  std::map<std::string, std::string> environment;  // threads, SIMD target, host: information
  std::map<std::string, int64_t> layout;           // micro_batch, data, tensor, pipeline: how work is cut
  int32_t rank = 0, ranks = 1;
  // Set by the recorder:
  Level level = Level::kKernel;
  std::string iterations = "all";
  std::string recorded_ranks = "all";  // which ranks the run was asked to record
  int32_t generation = 0;              // 0, then one more with each resume

  std::string ToJson() const;
  static Result<TraceHeader> FromJson(std::string_view text);
};

}  // namespace samestep
