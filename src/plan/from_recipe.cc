#include "plan/from_recipe.h"

#include <algorithm>

#include "plan/data_memory.h"

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

DecoderConfig DecoderConfigOf(const Recipe& r) {
  DecoderConfig c;
  c.family = r.model.family == Family::kLlama ? DecoderFamily::kLlama : DecoderFamily::kGpt2;
  c.vocab = r.model.vocab;
  c.vocab_padded = r.model.vocab_padded;
  c.hidden = r.model.hidden;
  c.layers = r.model.layers;
  c.heads = r.model.heads;
  c.kv_heads = r.model.kv_heads;
  c.head_size = r.model.head_size;
  c.intermediate = r.model.intermediate;
  c.sequence = r.model.sequence;
  c.norm_eps = r.model.norm_eps.ToFloat();
  c.rope_base = r.model.rope_base;
  c.mlp = MlpOf(r.model.activation);
  c.tied_output = r.model.tied_output;
  c.linear_biases = r.model.linear_biases;
  c.init_std = r.model.init_std.ToFloat();
  c.data_lanes = static_cast<int>(r.invariance.data_lanes);
  c.tensor_lanes = static_cast<int>(r.invariance.tensor_lanes);
  c.context_lanes = static_cast<int>(r.invariance.context_lanes);
  c.recompute_layers = r.memory.recompute == Recompute::kLayer;
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

PlanConfig PlanConfigOf(const Recipe& r, int threads) {
  return {.model = DecoderConfigOf(r),
          .layout = LayoutOf(r),
          .global_batch = r.train.global_batch,
          .micro_batch = std::min(r.train.micro_batch, r.train.global_batch),
          .threads = threads,
          .sample_order = SampleOrderBytes(TrainingDataOf(r))};
}

}  // namespace samestep
