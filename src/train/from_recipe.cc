#include "train/from_recipe.h"

#include <algorithm>

namespace samestep {
namespace {

MlpKind MlpOf(Activation activation) {
  switch (activation) {
    case Activation::kSwiGlu:
      return MlpKind::kSwiglu;
    case Activation::kGelu:
      return MlpKind::kGelu;
    case Activation::kGeluTanh:
      return MlpKind::kGeluTanh;
  }
  CheckFailed(__FILE__, __LINE__, "activation", "unknown");
}

DecayKind DecayOf(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return DecayKind::kConstant;
    case ScheduleKind::kCosine:
      return DecayKind::kCosine;
    case ScheduleKind::kWarmupStableDecay:
      return DecayKind::kWarmupStableDecay;
  }
  CheckFailed(__FILE__, __LINE__, "schedule", "unknown");
}

DataOptions DataOf(const Recipe& r, DataSplit part, int64_t samples) {
  DataOptions options;
  for (const DataSource& s : r.data.sources) options.sources.push_back({s.path, s.weight.ToDouble()});
  for (size_t i = 0; i < options.split.size(); ++i) {
    options.split[i] = i < r.data.split.size() ? r.data.split[i].ToDouble() : 0;
  }
  options.part = part;
  options.sequence_length = r.model.sequence;
  options.samples = samples;
  options.vocab_size = r.model.vocab;
  options.seed = static_cast<uint64_t>(r.data.seed);
  return options;
}

}  // namespace

TrainerConfig TrainerConfigOf(const Recipe& r) {
  TrainerConfig c;
  c.model.family = r.model.family == Family::kLlama ? DecoderFamily::kLlama : DecoderFamily::kGpt2;
  c.model.vocab = r.model.vocab;
  c.model.vocab_padded = r.model.vocab_padded;
  c.model.hidden = r.model.hidden;
  c.model.layers = r.model.layers;
  c.model.heads = r.model.heads;
  c.model.kv_heads = r.model.kv_heads;
  c.model.head_size = r.model.head_size;
  c.model.intermediate = r.model.intermediate;
  c.model.sequence = r.model.sequence;
  c.model.norm_eps = r.model.norm_eps.ToFloat();
  c.model.rope_base = r.model.rope_base;
  c.model.mlp = MlpOf(r.model.activation);
  c.model.tied_output = r.model.tied_output;
  c.model.linear_biases = r.model.linear_biases;
  c.model.init_std = r.model.init_std.ToFloat();
  c.model.data_lanes = static_cast<int>(r.invariance.data_lanes);
  c.model.tensor_lanes = static_cast<int>(r.invariance.tensor_lanes);
  c.model.context_lanes = static_cast<int>(r.invariance.context_lanes);
  c.model.recompute_layers = r.memory.recompute == Recompute::kLayer;
  c.optimizer = {r.optimizer.beta1, r.optimizer.beta2, r.optimizer.eps, r.optimizer.weight_decay,
                 r.optimizer.max_norm};
  c.schedule = {DecayOf(r.optimizer.schedule), r.optimizer.lr,          r.optimizer.min_lr,
                r.optimizer.warmup_steps,      r.optimizer.decay_steps, r.train.steps};
  c.seed = static_cast<uint64_t>(r.train.seed);
  c.global_batch = r.train.global_batch;
  c.micro_batch = std::min(r.train.micro_batch, r.train.global_batch);
  return c;
}

Layout LayoutOf(const Recipe& r) {
  return {static_cast<int>(r.layout.data), static_cast<int>(r.layout.tensor),
          static_cast<int>(r.layout.pipeline), static_cast<int>(r.layout.chunks)};
}

LayoutWidths LayoutWidthsOf(const Recipe& r) {
  return {.data_lanes = static_cast<int>(r.invariance.data_lanes),
          .tensor_lanes = static_cast<int>(r.invariance.tensor_lanes),
          .context_lanes = static_cast<int>(r.invariance.context_lanes),
          .layers = r.model.layers,
          .global_batch = r.train.global_batch,
          .micro_batch = std::min(r.train.micro_batch, r.train.global_batch)};
}

DataOptions TrainingDataOf(const Recipe& r) {
  return DataOf(r, DataSplit::kTraining, r.train.steps * r.train.global_batch);
}

DataOptions ValidationDataOf(const Recipe& r) {
  DataOptions options = DataOf(r, DataSplit::kValidation, r.train.evaluate_samples);
  if (!r.data.validation.empty()) {
    options.sources = {{r.data.validation, 1.0}};
    options.split = {0, 1, 0};
  }
  return options;
}

}  // namespace samestep
