// recipe.h: everything that a run is made of, read from one TOML file.
//
//   SAMESTEP_ASSIGN_OR_RETURN(Recipe recipe, LoadRecipe("tiny.toml", {"train.steps=20"}));
//   recipe.model.hidden                    // validated: all fields set, all widths divide
//   recipe.optimizer.lr.ToFloat()          // the exact real value of the file's decimal, rounded once
//   RecipeDigest(recipe)                   // same digest, same bits (given the same data)
//
// One table (schema.h) holds each field's name, type, default, range, documentation and whether it shapes
// the trajectory; parsing, validation, the digest and docs/guide/recipe.md all come from it. Whatever the
// table does not hold is refused, with the nearest known name.
//
// Determinism: free of locale; the canonical text and the digest are functions of the fields alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "fingerprint/digest.h"
#include "numerics/decimal.h"

namespace samestep {

enum class Family { kLlama, kGpt2 };
enum class Activation { kSwiGlu, kGelu, kGeluTanh };
enum class ScheduleKind { kConstant, kCosine, kWarmupStableDecay };
enum class Recompute { kNone, kLayer };

struct ModelRecipe {
  Family family{};
  int64_t vocab = 0;
  int64_t vocab_padded = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t intermediate = 0;
  int64_t sequence = 0;
  Decimal norm_eps;
  Decimal rope_base;
  Activation activation{};
  bool tied_output = false;
  bool linear_biases = false;
  Decimal dropout;
  Decimal init_std;
};

struct DataSource {
  std::string path;  // prefix of a .bin/.idx pair, absolute
  Decimal weight;
};

struct DataRecipe {
  std::vector<DataSource> sources;
  std::vector<Decimal> split;  // weights of training, validation and test
  int64_t seed = 0;
  std::string tokenizer;   // "bytes", or an absolute path; empty: none named
  std::string validation;  // prefix of a .bin/.idx pair, absolute; empty: the split's second part
};

struct TrainRecipe {
  int64_t steps = 0;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;
  int64_t seed = 0;
  int64_t evaluate_every = 0;
  int64_t evaluate_samples = 0;
  int64_t checkpoint_every = 0;
  int64_t keep_checkpoints = 0;
  int64_t log_every = 0;
};

struct OptimizerRecipe {
  Decimal lr;
  Decimal min_lr;
  ScheduleKind schedule{};
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  Decimal beta1;
  Decimal beta2;
  Decimal eps;
  Decimal weight_decay;
  Decimal max_norm;  // zero: gradients are not clipped
};

struct InvarianceRecipe {
  int64_t data_lanes = 0;
  int64_t tensor_lanes = 0;
  int64_t context_lanes = 0;
  int64_t expert_lanes = 0;
};

struct MemoryRecipe {
  Recompute recompute{};
};

// How many processes work along each axis (parallel/layout.h); expert and context are reserved.
struct LayoutRecipe {
  int64_t data = 0;
  int64_t tensor = 0;
  int64_t pipeline = 0;
  int64_t chunks = 0;
  int64_t expert = 0;
  int64_t context = 0;
};

struct Recipe {
  ModelRecipe model;
  DataRecipe data;
  TrainRecipe train;
  OptimizerRecipe optimizer;
  InvarianceRecipe invariance;
  MemoryRecipe memory;
  LayoutRecipe layout;
};

// Reads, completes and checks a recipe. An override is "table.field=value", the value as in the file (quotes
// around text may be left out). Paths in the file are relative to the file's folder, those of overrides to
// the working folder. Errors are kUsage, with file:line (or --set), the value seen and what was expected.
Result<Recipe> LoadRecipe(const std::string& path, const std::vector<std::string>& overrides = {});

// The same from text; `name` is what messages call it, `folder` what its paths are relative to.
Result<Recipe> ParseRecipe(std::string_view text, const std::string& name, const std::string& folder,
                           const std::vector<std::string>& overrides = {});

// All fields, defaults too, in the schema's order, as a recipe that reads back as the same one.
std::string CanonicalText(const Recipe& recipe);

// The canonical text of the fields that shape the trajectory, after a line that names the numerics profile.
std::string ShapingText(const Recipe& recipe);

// XXH3-128 of ShapingText. Two runs on the same data whose recipes have one
// digest have the same bits in each step. Where data lies is not in it (the data's contents are checked by
// their own fingerprint); threads, micro-batch, recomputation, logging and checkpoints are not either.
Digest RecipeDigest(const Recipe& recipe);

// docs/guide/recipe.md, from the schema.
std::string RecipeDocumentation();

}  // namespace samestep
