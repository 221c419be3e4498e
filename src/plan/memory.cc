// The bytes of RankPlan: each function stands for the code that allocates, which it names.
#include "plan/memory.h"

#include <algorithm>
#include <bit>

#include "kernels/exact_sum/exact_sum.h"
#include "parallel/pipeline_schedule.h"
#include "plan/held.h"
#include "tensor/tensor.h"

namespace samestep {
namespace {

// Code, libraries, stacks and small tables; with several ranks those of MPI, too. Measured:
// docs/guide/plan.md.
constexpr int64_t kProgramBytes = int64_t{12} << 20, kMpiBytes = int64_t{12} << 20;

// What a tensor of so many elements of four bytes takes.
Count Allocated(Count elements) {
  const Count used = elements * 4;
  if (used.value() > Count::kMost / 2) return Count::kMost;
  return static_cast<int64_t>(AllocatedBytes(static_cast<size_t>(used.value())));
}

// The most subtrees that are alive while `lanes` are merged one after another (model/gradient_sum.h): the
// finished ones, one a bit of their number, and the current lane.
int64_t TreeBuffers(int64_t lanes) {
  int64_t most = 0;
  for (int64_t done = 0; done < lanes; ++done) {
    most = std::max<int64_t>(most, std::popcount(static_cast<uint64_t>(done)) + 1);
  }
  return most;
}

class MemoryPlanner {
 public:
  MemoryPlanner(const PlanConfig& config, RankPlan& plan)
      : c_(config.model),
        layout_(config.layout),
        plan_(plan),
        shape_(c_, layout_, plan.place),
        samples_(SamplesOf(layout_, plan.place, config.global_batch).count),
        batch_(std::min(config.micro_batch, samples_)),
        micro_batches_((samples_ + config.micro_batch - 1) / config.micro_batch),
        threads_(config.threads) {}

  void Run() {
    for (const HeldParameter& p : HeldParameters(c_, layout_, plan_.place)) AddParameter(p);
    AddActivations();
    AddScratch();
    AddCommunication();
    if (shape_.last_stage) AddHead();
    // train/trainer.cc: inputs and targets; exact sums of losses (two) and of the norm.
    Add(MemoryKind::kTokens, Allocated(Count(samples_) * c_.sequence) * 2 + ExactSum() * 3);
    AddKernels();
    Add(MemoryKind::kProgram, kProgramBytes + (layout_.ranks() > 1 ? kMpiBytes : 0));
  }

 private:
  void Add(MemoryKind kind, Count bytes) { plan_.memory[static_cast<int>(kind)] += bytes; }
  static Count ExactSum() { return Allocated(2 * kExactSumWords); }
  int64_t tensor() const { return layout_.tensor; }
  int64_t data() const { return layout_.data; }

  // model/parameter.cc, optimizer/optimizer.cc
  void AddParameter(const HeldParameter& p) {
    const int64_t own_rows = PartOf(p.rows, layout_.data, plan_.place.data).count;
    const Count own = Count(own_rows) * p.width;
    plan_.parameters += p.elements() * p.copies;
    Add(MemoryKind::kWeights, Allocated(p.elements()) * p.copies);
    if (p.owned()) {
      plan_.owned_parameters += own * p.copies;
      Add(MemoryKind::kMoments, Allocated(own) * 2 * p.copies);
    }
    const int sums = p.tied ? (p.embedding ? 1 : 0) + (p.output ? 1 : 0) : 1;
    AddSums(p, own, Count(p.copies) * sums);
    if (p.tied && p.embedding) {
      // model/gradient_reducer.cc: the sum of both gradients, and the other one, which the last stage sends.
      Add(MemoryKind::kReceived, Allocated(own));
      if (!p.output) Add(MemoryKind::kReceived, Allocated(own));
    }
  }

  // model/gradient_sum.cc, model/gradient_reducer.cc
  void AddSums(const HeldParameter& p, Count own, Count sums) {
    const int64_t data_lanes = c_.data_lanes / layout_.data;
    const int64_t token_lanes =
        p.by_token() ? int64_t{c_.context_lanes} * c_.tensor_lanes / tensor() : c_.context_lanes;
    const Count shard = Allocated(p.elements());
    if (token_lanes > 1) Add(MemoryKind::kGradients, Allocated(p.elements() * token_lanes) * sums);
    if (p.replicated(layout_)) {
      Add(MemoryKind::kGradients, shard * data_lanes * sums);
      AddReplicaSum(p, data_lanes, sums);
    } else {
      Add(MemoryKind::kGradients, shard * TreeBuffers(data_lanes) * sums);
    }
    if (data() > 1) Add(MemoryKind::kReceived, (Allocated(own * data()) + Allocated(own)) * sums);
  }

  // GradientSum::FinishReplicas
  void AddReplicaSum(const HeldParameter& p, int64_t data_lanes, Count sums) {
    const Count own = Count(PartOf(p.rows, layout_.tensor, plan_.place.tensor).count) * p.width;
    Add(MemoryKind::kReceived, (Allocated(p.elements()) + Allocated(own)) * sums);
    const Count passing =
        Allocated(own * tensor()) * data_lanes + Allocated(own) * (TreeBuffers(data_lanes) - 1);
    if (passing <= plan_.transient) return;
    // One parameter after another: the largest counts.
    plan_.memory[static_cast<int>(MemoryKind::kReceived)] =
        plan_.memory[static_cast<int>(MemoryKind::kReceived)].value() - plan_.transient.value();
    plan_.transient = passing;
    Add(MemoryKind::kReceived, passing);
  }

  Count OwnTokens() const { return Allocated(Count(batch_) * shape_.own_tokens * c_.hidden); }
  Count AllTokens(int64_t width) const { return Allocated(Count(batch_) * c_.sequence * width); }
  Count OwnRows() const { return Allocated(Count(batch_) * shape_.own_tokens); }

  // BlockActivations::Make
  Count BlockActivationBytes() const {
    const DecoderConfig& l = shape_.local;
    return AllTokens(c_.hidden) * 2 + OwnTokens() + OwnRows() * 4 + AllTokens(l.qkv_width()) +
           AllTokens(l.query_width()) + AllTokens(l.heads) * 2 + AllTokens(l.up_width()) +
           AllTokens(l.intermediate);
  }

  // Decoder::MakeSlot, for each micro-batch that is in flight in each chunk.
  void AddActivations() {
    // The schedule repeats itself after its first groups.
    const int64_t enough = int64_t{8} * layout_.pipeline;
    const std::vector<PipelineStep> schedule =
        ScheduleOf(layout_, plan_.place.pipeline, std::min(micro_batches_, enough));
    for (int chunk = 0; chunk < layout_.chunks; ++chunk) {
      const int64_t slots = std::max<int64_t>(1, MostInFlight(schedule, chunk));
      const int64_t blocks = LayersOf(layout_, plan_.place.pipeline, chunk, LayerCostsOf(c_)).count;
      const bool last = shape_.last_stage && chunk == layout_.chunks - 1;
      Count slot = OwnTokens() * (blocks + 2);  // inputs, the output, its gradient
      if (!c_.recompute_layers) slot += BlockActivationBytes() * blocks;
      if (last) slot += OwnTokens() + OwnRows() * 2;
      Add(MemoryKind::kActivations, slot * slots);
    }
    if (c_.recompute_layers) Add(MemoryKind::kActivations, BlockActivationBytes());
  }

  // BlockScratch::Make, Decoder::Decoder
  void AddScratch() {
    const DecoderConfig& l = shape_.local;
    Add(MemoryKind::kScratch, OwnTokens() * 2 + AllTokens(l.intermediate) + AllTokens(l.up_width()) +
                                  AllTokens(l.query_width()) + AllTokens(l.qkv_width()));
    if (shape_.last_stage) Add(MemoryKind::kScratch, OwnTokens());
    if (c_.family == DecoderFamily::kLlama) {
      Add(MemoryKind::kScratch, Allocated(Count(c_.sequence) * (c_.head_size / 2)) * 2);
    }
  }

  // model/tensor_parallel.cc; EmbeddingLayer::ForwardShards, whose rows are no tensors.
  void AddCommunication() {
    if (tensor() == 1) return;
    Add(MemoryKind::kCommunication, AllTokens(c_.hidden) * 3);
    if (shape_.first_stage) Add(MemoryKind::kCommunication, EmbeddingRows());
  }
  Count EmbeddingRows() const { return Count(batch_) * shape_.own_tokens * c_.hidden * 4 * 3; }

  // model/output_head.cc
  void AddHead() {
    const Count rows = HeadRows();
    Add(MemoryKind::kLogits, Allocated(rows * shape_.all_vocab) + AllTokens(1) * 3);
    if (tensor() > 1) Add(MemoryKind::kLogits, Allocated(rows) * 2 + Allocated(rows * tensor()) * 2);
  }
  Count HeadRows() const {
    const int64_t fitting = (int64_t{1} << 28) / (4 * shape_.all_vocab) / 256 * 256;
    const Count all = Count(batch_) * c_.sequence;
    return std::max(std::min(all, Count(std::clamp<int64_t>(fitting, 256, 4096))),
                    Count(std::min<int64_t>(256, c_.sequence)));
  }

  // kernels/linear/gemm.cc, kernels/attention: kept by each thread from call to call.
  void AddKernels() {
    const DecoderConfig& l = shape_.local;
    const Count rows = Count(batch_) * c_.sequence;
    const int64_t widest = std::max({l.qkv_width(), l.up_width(), c_.hidden, shape_.vocab});
    constexpr int64_t kPacked = int64_t{2} << 20, kPlanes = int64_t{16} << 20, kStripe = 128 << 10;
    Add(MemoryKind::kKernels, std::max(Count(kPacked), std::min(rows, Count(widest)) * 1024 + 32768));
    if (const int64_t lanes = c_.tensor_lanes / tensor(); lanes > 1) {
      const int depth = std::bit_width(static_cast<uint64_t>(lanes - 1));
      Add(MemoryKind::kKernels, std::min(Count(kPlanes), rows * c_.hidden * 4 * depth));
    }
    const int64_t d = c_.head_size, padded = (d + 15) / 16 * 16, tile = 64;
    const Count tiled = Count((c_.sequence + tile - 1) / tile) * tile;
    Add(MemoryKind::kKernels, Allocated(Count(batch_) * l.kv_heads * tiled * (d + padded)));
    const Count forward = tile * (2 * padded + tile + 3);
    const Count backward = tiled * (2 * d + padded) + tiled * padded * (2 * int64_t{c_.context_lanes}) +
                           tile * (3 * padded + 2 * tile + 3);
    Add(MemoryKind::kKernels, (Allocated(std::max(forward, backward)) + kStripe) * threads_);
  }

  const DecoderConfig& c_;
  const Layout& layout_;
  RankPlan& plan_;
  RankShape shape_;
  int64_t samples_, batch_, micro_batches_;
  int threads_;
};

}  // namespace

void PlanMemory(const PlanConfig& config, RankPlan& plan) { MemoryPlanner(config, plan).Run(); }

}  // namespace samestep
