// config.h: what a decoder is made of, as numbers; the recipe's [model] and [invariance] in the model's
// words.
//
//   DecoderConfig c{.family = DecoderFamily::kLlama, .vocab = 257, .vocab_padded = 257, .hidden = 256, …};
//
// Llama-style: RMSNorm, RoPE, separate q, k, v. GPT-2-style: LayerNorm, learned positions, fused q, k, v.
//
// Determinism: together with the seed and the data this is all that the bits depend on.
#pragma once

#include <cstdint>

#include "numerics/decimal.h"
#include "parallel/layout.h"

namespace samestep {

enum class DecoderFamily { kLlama, kGpt2 };
enum class MlpKind { kSwiglu, kGelu, kGeluTanh };

struct DecoderConfig {
  DecoderFamily family = DecoderFamily::kLlama;
  int64_t vocab = 0, vocab_padded = 0;
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, intermediate = 0;
  int64_t sequence = 0;
  float norm_eps = 1e-5f;
  Decimal rope_base;
  MlpKind mlp = MlpKind::kSwiglu;
  bool tied_output = false;
  bool linear_biases = false;
  float init_std = 0.02f;
  int data_lanes = 1, tensor_lanes = 1, context_lanes = 1;
  bool recompute_layers =
      false;  // keep block inputs only, and run each block forward again before its backward

  int64_t query_width() const { return heads * head_size; }
  int64_t key_width() const { return kv_heads * head_size; }
  int64_t qkv_width() const { return query_width() + 2 * key_width(); }
  // Columns of the MLP's first projection (gate and up side by side).
  int64_t up_width() const { return mlp == MlpKind::kSwiglu ? 2 * intermediate : intermediate; }
};

// Costs by multiply-adds a token, forward: what pipeline stages are balanced by.
inline LayerCosts LayerCostsOf(const DecoderConfig& c) {
  const int64_t products = c.hidden * (c.qkv_width() + c.query_width() + c.up_width() + c.intermediate);
  const int64_t attention = c.sequence * c.query_width();  // scores and values over half the keys
  return {c.layers, products + attention, c.vocab_padded * c.hidden};
}

}  // namespace samestep
