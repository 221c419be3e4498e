// logical_calls.h: the calls of all ranks of a run, put together to those of the program: a logical call is
// what every rank and micro-batch did of it, and its slots hold the parts of each logical tensor.
//
//   NameTable names;
//   LogicalCalls a(segments, ranks, {}, &names);
//   for (const auto& [key, call] : a.calls()) for (const auto& [slot, parts] : call.slots) Join(parts, ...)
//
// What one layout does in one call and another in several is one logical call: a linear whose partial sums
// are reduced (linear.forward, sum.tree, sum.bias), the losses of a split vocabulary (cross_entropy.max and
// so on). The table of these stands in the source file; nothing else here knows kernels.
//
// Determinism: a function of the segments.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "locate/tiling.h"
#include "trace/event.h"

namespace samestep {

// One part of a logical tensor, as one event had it.
struct Part {
  const TensorSite* site = nullptr;
  const Site* event_site = nullptr;
  Fingerprint fingerprint;
  size_t segment = 0;    // which of the ranks'
  uint32_t event = 0;    // in that
  uint32_t tensor = 0;   // of the event
  bool updated = false;  // read and written under one role
};

struct SlotKey {
  bool output = false;
  bool partial = false;  // a sum of some of the lanes only
  std::string name;      // role, and the lanes of a partial sum
  auto operator<=>(const SlotKey&) const = default;
};

// A slot's parts put together.
struct Joined {
  enum class State {
    kWhole,       // they tile the logical tensor, and all that hold a box agree
    kCopies,      // they tile it, and ranks hold copies that differ
    kInProgress,  // an accumulator between two updates: a matter of the layout
    kPieces,      // they do not tile it
    kUnlike,      // one rank had several contents of one box
  } state = State::kUnlike;
  TensorSite site;  // the logical tensor
  Fingerprint fingerprint;
  std::map<Box, std::map<size_t, const Part*>> boxes;  // the last of each rank
};
Joined Join(const std::vector<Part>& parts, bool output);

struct LogicalCall {
  Site site;
  int64_t occurrence = 0;
  std::vector<std::string> kernels;  // in execution order
  std::vector<int64_t> first_event;  // of each rank; -1 where it has none
  std::map<SlotKey, std::vector<Part>> slots;
  std::map<std::string, std::set<uint64_t>> floats;  // attributes
  std::map<size_t, std::set<uint64_t>> values;       // of a scalar result, by rank
};

// Numbers for names, shared by both sides of a comparison.
using NameTable = std::map<std::string, int>;
struct CallKey {
  int name = 0;
  int64_t occurrence = 0;
  auto operator<=>(const CallKey&) const = default;
};

class LogicalCalls {
 public:
  // `merged`: names whose occurrences count as one.
  LogicalCalls(const std::vector<const Segment*>& segments, const std::set<int>& merged, NameTable* names);

  const std::map<CallKey, LogicalCall>& calls() const { return calls_; }
  const std::vector<const Segment*>& segments() const { return segments_; }
  const CallKey& KeyOf(size_t segment, size_t event) const { return keys_[segment][event]; }
  // The argument that a part's content came from, in the same rank; none where it was read from memory.
  const Part* MakerOf(const Part& part) const;
  // Inputs of the event that a part belongs to.
  std::vector<const Part*> InputsOf(const Part& part) const;
  // Keys in an order that each rank's execution and what ranks passed on to each other allow.
  std::vector<CallKey> InOrder() const;

 private:
  struct Known;
  void Add(size_t segment, const std::set<int>& merged, NameTable* names);
  static Known KnownOf(const Site& site, NameTable* names);
  void AddTensors(size_t segment, size_t event, const Known& known, const std::string& role,
                  LogicalCall* call);
  static bool Supersedes(const Part& part, const SlotKey& slot, LogicalCall* call);
  std::vector<const Segment*> segments_;
  std::map<CallKey, LogicalCall> calls_;
  std::vector<std::vector<CallKey>> keys_;    // of each event of each segment; name -1: none
  std::vector<std::vector<Part>> all_parts_;  // of each slot of each segment
};

}  // namespace samestep
