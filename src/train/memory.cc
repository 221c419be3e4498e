#include "train/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace samestep {
namespace {

// In binary64, since a recipe may ask for more than fits into an integer.
struct Sizes {
  double vocab, padded, hidden, layers, heads, query, qkv, up, intermediate, sequence;
  explicit Sizes(const DecoderConfig& c)
      : vocab(static_cast<double>(c.vocab)),
        padded(static_cast<double>(c.vocab_padded)),
        hidden(static_cast<double>(c.hidden)),
        layers(static_cast<double>(c.layers)),
        heads(static_cast<double>(c.heads)),
        query(heads * static_cast<double>(c.head_size)),
        qkv(query + 2 * static_cast<double>(c.kv_heads) * static_cast<double>(c.head_size)),
        up(static_cast<double>(c.intermediate) * (c.mlp == MlpKind::kSwiglu ? 2 : 1)),
        intermediate(static_cast<double>(c.intermediate)),
        sequence(static_cast<double>(c.sequence)) {}
};

double ParameterElements(const DecoderConfig& c, const Sizes& s) {
  const double block = s.hidden * (s.qkv + s.query + s.up + s.intermediate + 4);
  const double embeddings = s.vocab * s.hidden * (c.tied_output ? 1 : 2);
  const double positions = c.family == DecoderFamily::kGpt2 ? s.sequence * s.hidden : 0;
  return embeddings + positions + s.layers * block;
}

// Partial sums of gradients that are alive together: one a level of the tree of data lanes, one a token lane.
double GradientCopies(const DecoderConfig& c) {
  const double tree = 1 + std::ceil(std::log2(static_cast<double>(c.data_lanes)));
  return tree + (c.context_lanes > 1 ? c.context_lanes : 0);
}

}  // namespace

double TrainingBytes(const TrainerConfig& config) {
  const DecoderConfig& c = config.model;
  const Sizes s(c);
  const double tokens = static_cast<double>(config.micro_batch) * s.sequence;
  const double kept = s.hidden * 3 + s.qkv + s.query + s.up + s.intermediate + 2 * s.heads + 4;
  const double gradients = s.hidden * 5 + s.intermediate + s.up + s.query + s.qkv;
  const double blocks = c.recompute_layers ? 1 : s.layers;
  const double logits = std::min(tokens * s.padded, std::max(256.0 * s.padded, 67108864.0));
  const double tied = c.tied_output ? 2 * s.vocab * s.hidden : 0;
  const double state = ParameterElements(c, s) * (3 + GradientCopies(c)) + tied;
  const double batch = 2 * static_cast<double>(config.global_batch) * s.sequence;
  // Of each sample its place in the shuffled order, and a document that it comes from (data/sample_order.h).
  const double order =
      2 * static_cast<double>(config.schedule.steps) * static_cast<double>(config.global_batch);
  return 4 *
         (state + batch + order + tokens * (blocks * kept + (s.layers + 1) * s.hidden + gradients) + logits);
}

Status CheckMemory(const TrainerConfig& config) {
  const double needed = TrainingBytes(config);
  const double there =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (needed <= there) return {};
  return UsageError(
      "this recipe needs about {:.1f} GiB of memory, the machine has {:.1f}; use a smaller "
      "train.micro_batch, "
      "memory.recompute = \"layer\", a smaller model, or fewer train.steps",
      needed / 0x1p30, there / 0x1p30);
}

}  // namespace samestep
