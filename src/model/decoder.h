// decoder.h: a decoder-only language model, Llama-style or GPT-2-style, forward and backward.
//
//   Decoder model(config, /*max_samples=*/8, grid);
//   model.parameters().Initialize(seed, config.init_std);
//   model.RunStep(batches, 1.0f / targets, loss_state);    // every owned parameter's `gradient`
//
// A step of training reads from here down: Decoder -> Block -> LinearLayer -> kernels/linear. A rank holds
// the layers of its pipeline stage, in one chunk or, interleaved, several; the first stage has the
// embedding, the last the output head. Alone, it holds them all in one.
//
// Determinism: the graph of numerics page 5; micro-batches, layout, schedule and recomputation change no bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/block.h"
#include "model/embedding_layer.h"
#include "model/gradient_reducer.h"
#include "model/output_head.h"
#include "parallel/pipeline_schedule.h"

namespace samestep {

class Decoder {
 public:
  // `max_samples`: of a micro-batch. `micro_batches`: of a step, which with several stages decides how many
  // are in flight.
  Decoder(const DecoderConfig& config, int64_t max_samples, ProcessGrid& grid = ProcessGrid::Alone(),
          int64_t micro_batches = 1);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const DecoderConfig& config() const { return config_; }
  ParameterSet& parameters() { return parameters_; }
  const ParameterSet& parameters() const { return parameters_; }

  // Forward and backward over this rank's samples, and the reduction of gradients. Adds the token losses to
  // the exact sum in loss_state: on the last stage, the same on each of its tensor ranks.
  void RunStep(const std::vector<MicroBatch>& batches, float target_weight, const TensorView& loss_state);
  // Token losses only.
  void Evaluate(const MicroBatch& batch, const TensorView& loss_state);
  // Logits [vocab] of the token that follows `tokens` (at most `sequence` of them). Alone only.
  void NextTokenLogits(std::span<const int32_t> tokens, const TensorView& logits);
  // A micro-batch of this rank, cut as its tensor group works on it.
  MicroBatch MakeBatch(int64_t first_sample, int64_t global_batch, int data_lanes, const TensorView& tokens,
                       const TensorView& targets) const;

 private:
  // What a micro-batch on its way through a chunk leaves for its backward pass.
  struct Slot {
    std::vector<Tensor> x;  // block inputs, and the last output: [samples, own tokens, hidden]
    std::vector<BlockActivations> activations;  // one a block; none with recomputation
    Tensor final_mean, final_rstd, diff_final;  // of the last chunk
    Tensor diff;                                // gradient of the chunk's output, then of its input
    Pending sent_x, sent_diff;
  };
  struct Chunk {
    int number = 0;  // among all chunks of the model, in the order of layers
    bool first = false, last = false;
    std::vector<Block> blocks;
    std::vector<Slot> slots;
  };

  void MakeChunks(int64_t max_samples, int64_t micro_batches);
  Slot MakeSlot(const Chunk& chunk, int64_t samples) const;
  Slot& SlotOf(Chunk& chunk, int64_t micro_batch) {
    return chunk.slots[static_cast<size_t>(micro_batch) % chunk.slots.size()];
  }
  BlockActivations& ActivationsOf(Slot& slot, size_t block) {
    return slot.activations.empty() ? recomputed_ : slot.activations[block];
  }
  // Runs the chunk's input and blocks; returns the last block's output. `keep`: for a backward pass.
  TensorView ForwardBlocks(Chunk& chunk, Slot& slot, const MicroBatch& batch, bool keep);
  TensorView FinalNorm(const MicroBatch& batch, const TensorView& x, const Slot& slot);
  void Forward(Chunk& chunk, const MicroBatch& batch, int64_t number, float target_weight,
               const TensorView& loss_state);
  void Backward(Chunk& chunk, const MicroBatch& batch, int64_t number, bool last_batch);
  void BackwardFinalNorm(const MicroBatch& batch, Slot& slot);
  void Receive(int chunk_number, bool backward, const TensorView& view);
  Pending Send(int chunk_number, bool backward, const TensorView& view);
  RopeRows Rope(int64_t tokens) const;

  DecoderConfig config_;
  ProcessGrid* grid_;
  ParameterSet parameters_;
  TensorParallel tp_;
  GradientReducer reducer_;
  EmbeddingLayer embedding_;
  std::vector<Chunk> chunks_;
  std::string final_norm_path_;
  NormLayer final_norm_;
  std::unique_ptr<OutputHead> head_;  // of the last stage

  Tensor cos_, sin_;  // RoPE table [sequence, head_size / 2]
  BlockActivations recomputed_;
  BlockScratch scratch_;
  Tensor final_;
};

}  // namespace samestep
