// plan.h: what a training will need, before it runs: memory, arithmetic and bytes on the network, rank by
// rank.
//
//   const PlanConfig config = PlanConfigOf(recipe);
//   const RankPlan rank = PlanRank(config, {.data = 0, .tensor = 1, .pipeline = 0});
//   rank.Memory()                                   // bytes; of which kind: rank.memory
//   rank.BytesSent()                                // of one step; for what purpose: rank.network
//   SAMESTEP_RETURN_IF_ERROR(CheckMemory(config, ranks_on_this_machine));
//
// The formulas (docs/guide/plan.md) are those of the code that allocates and sends: model/, optimizer/,
// train/trainer.cc, parallel/exchange.cc. Tests hold tensors and bytes sent against real trainings, exactly.
//
// Determinism: integers; CheckMemory compares with this machine's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "parallel/layout.h"
#include "plan/count.h"

namespace samestep {

struct PlanConfig {
  DecoderConfig model;
  Layout layout = {};
  int64_t global_batch = 1, micro_batch = 1;
  int threads = 1;          // of a rank; each has memory for packed operands
  Count sample_order = {};  // bytes: data_memory.h
};

enum class MemoryKind {
  kWeights,
  kGradients,      // accumulators of lanes, and the tree over them
  kReceived,       // gradients of other ranks on their way into a sum, and the sums
  kMoments,        // of the owned rows
  kActivations,    // kept between forward and backward pass, of all micro-batches in flight
  kScratch,        // within a block
  kCommunication,  // gathered tokens, partial sums, embedding rows
  kLogits,
  kTokens,
  kSampleOrder,
  kKernels,  // packed operands; at most
  kProgram,  // code, libraries, stacks: about
};
inline constexpr int kMemoryKinds = 12;
const char* MemoryKey(MemoryKind kind);    // "weights"
const char* MemoryLabel(MemoryKind kind);  // "gradients (lanes and tree)"

// Bytes that a rank sends in a step, for one purpose.
struct NetworkItem {
  const char* axis = "";  // "tensor", "data", "pipeline"
  const char* key = "";
  const char* label = "";
  Count bytes = {};      // exact; of embedding rows, which depend on the tokens, at most
  Count ring = {};       // what the ring algorithm for the same purpose would send
  bool at_most = false;  // else exact
  Count expected = {};   // at_most: if each token is equally frequent
};

struct RankPlan {
  RankPlace place;
  Count parameters;            // elements held
  Count owned_parameters;      // elements whose moments and updates are this rank's
  Count memory[kMemoryKinds];  // bytes, by MemoryKind
  Count transient;             // of the tensors in kReceived: those that live only during one reduction
  Count multiply_adds;         // of a step: forward and backward
  Count recompute;             // multiply-adds of repeated forward passes, besides these
  Count traffic;               // bytes that pass between memory and cores outside of products: a rough figure
  std::vector<NetworkItem> network;
  Count integers;  // bytes of integers and short texts that it gives to sums over all ranks

  Count Memory() const;
  // What tensors take, without kernels' own: exact.
  Count TensorMemory() const;
  Count Operations() const { return Count(2) * (multiply_adds + recompute); }  // floating-point
  Count BytesSent() const;
  Count RingBytes() const;
  Count MemoryOf(MemoryKind kind) const { return memory[static_cast<int>(kind)]; }
};

// Elements of the model, a tied weight once.
Count ModelParameters(const DecoderConfig& config);
// 6 x parameters x tokens of a step.
Count SixParametersTokens(const PlanConfig& config);
// The layout must have passed CheckLayout.
RankPlan PlanRank(const PlanConfig& config, const RankPlace& place);
// The ranks that any maximum over ranks falls on: of each stage, the first data rank, with the first and the
// last tensor rank.
std::vector<RankPlan> PlanLargestRanks(const PlanConfig& config);
Count MostMemory(const std::vector<RankPlan>& ranks);

// kUsage, with the ways out, if so many ranks need more than this machine has.
Status CheckMemory(const PlanConfig& config, int ranks_on_this_machine);

}  // namespace samestep
