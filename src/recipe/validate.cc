#include "recipe/validate.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "recipe/schema.h"

namespace samestep {
namespace {

constexpr double kMostTokens = 4e18;

// "1, 2, 3, 6": the divisors of `value` up to `limit`, at most twelve of them.
std::string Divisors(int64_t value, int64_t limit) {
  std::string text;
  int shown = 0;
  for (int64_t d = 1; d <= std::min(value, limit); ++d) {
    if (value % d != 0) continue;
    if (++shown > 12) return text + ", ...";
    text += fmt::format("{}{}", shown > 1 ? ", " : "", d);
  }
  return text;
}

// "768 or 800": the multiples of `step` next to `value`, and above zero.
std::string NearestMultiples(int64_t value, int64_t step) {
  const int64_t below = value / step * step;
  if (below == 0) return std::to_string(step);
  return fmt::format("{} or {}", below, below + step);
}

constexpr int64_t kRopeBase = 10000;  // also what gpt2 holds, unused

class Checker {
 public:
  Checker(const Recipe& recipe, const GivenFields& given) : r_(recipe), given_(given) {}

  Status All() {
    SAMESTEP_RETURN_IF_ERROR(NotBuiltYet());
    SAMESTEP_RETURN_IF_ERROR(Model());
    SAMESTEP_RETURN_IF_ERROR(Widths());
    SAMESTEP_RETURN_IF_ERROR(Data());
    SAMESTEP_RETURN_IF_ERROR(Batches());
    return Optimizer();
  }

 private:
  Status NotBuiltYet() {
    const auto only_one = [&](int64_t value, const char* key, const char* why) -> Status {
      if (value == 1) return {};
      return UsageError("{}: {} is {}; only 1 is accepted so far: {}", given_.Where({key}), key, value, why);
    };
    SAMESTEP_RETURN_IF_ERROR(only_one(r_.invariance.expert_lanes, "invariance.expert_lanes",
                                      "mixtures of experts are not built yet"));
    SAMESTEP_RETURN_IF_ERROR(
        only_one(r_.layout.expert, "layout.expert", "mixtures of experts are not built yet"));
    SAMESTEP_RETURN_IF_ERROR(
        only_one(r_.layout.context, "layout.context", "context parallelism is not built yet"));
    if (!r_.model.dropout.IsZero())
      return UsageError("{}: model.dropout is {}; only 0 is accepted so far: dropout is not built yet",
                        given_.Where({"model.dropout"}), r_.model.dropout.ToString());
    return {};
  }

  Status Model() {
    const ModelRecipe& m = r_.model;
    const bool llama = m.family == Family::kLlama;
    if (m.head_size == 0)
      return UsageError(
          "{}: model.hidden {} is not a multiple of model.heads {}; choose heads that divide it ({}), or set "
          "model.head_size",
          given_.Where({"model.heads", "model.hidden"}), m.hidden, m.heads, Divisors(m.hidden, 65536));
    if (m.heads % m.kv_heads != 0)
      return UsageError("{}: model.kv_heads {} does not divide model.heads {}; accepted are {}",
                        given_.Where({"model.kv_heads", "model.heads"}), m.kv_heads, m.heads,
                        Divisors(m.heads, m.heads));
    if (llama && m.head_size % 2 != 0)
      return UsageError("{}: model.head_size {} is odd; rotary positions need {}",
                        given_.Where({"model.head_size", "model.heads", "model.hidden"}), m.head_size,
                        NearestMultiples(m.head_size, 2));
    if (llama && !given_.Has("model.intermediate"))
      return UsageError("{}: model.intermediate is missing from [model]; family \"llama\" needs {}",
                        given_.recipe_name, FindField("model.intermediate")->Expected());
    if (llama != (m.activation == Activation::kSwiGlu))
      return UsageError("{}: model.activation does not exist in family \"{}\"; expected {}",
                        given_.Where({"model.activation"}), llama ? "llama" : "gpt2",
                        llama ? "\"swiglu\"" : "\"gelu\" or \"gelu_tanh\"");
    if (!llama && m.rope_base != Decimal::Of(kRopeBase))
      return UsageError(
          "{}: model.rope_base has no use in family \"gpt2\", whose positions are learned; remove it",
          given_.Where({"model.rope_base"}));
    if (!llama && m.kv_heads != m.heads)
      return UsageError("{}: model.kv_heads is {}; family \"gpt2\" has as many as heads, which are {}",
                        given_.Where({"model.kv_heads"}), m.kv_heads, m.heads);
    if (!llama && m.head_size * m.heads != m.hidden)
      return UsageError("{}: model.head_size is {}; family \"gpt2\" has hidden / heads, which is {} / {}",
                        given_.Where({"model.head_size"}), m.head_size, m.hidden, m.heads);
    if (m.vocab_padded < m.vocab)
      return UsageError("{}: model.vocab_padded {} is less than model.vocab {}; remove it, or set {} or more",
                        given_.Where({"model.vocab_padded"}), m.vocab_padded, m.vocab, m.vocab);
    return {};
  }

  // What tensor_lanes and the other widths cut must divide (numerics, "Lanes and tree").
  Status Widths() {
    const ModelRecipe& m = r_.model;
    const int64_t tensor = r_.invariance.tensor_lanes;
    const int64_t context = r_.invariance.context_lanes;
    const int64_t data = r_.invariance.data_lanes;
    struct Cut {
      const char* key;
      int64_t value;
    };
    for (const Cut& cut :
         {Cut{"model.heads", m.heads}, Cut{"model.kv_heads", m.kv_heads},
          Cut{"model.intermediate", m.intermediate}, Cut{"model.vocab_padded", m.vocab_padded}})
      if (cut.value % tensor != 0)
        return UsageError(
            "{}: invariance.tensor_lanes {} does not divide {} {}; set {} to {}, or tensor_lanes to one of "
            "{}",
            given_.Where({"invariance.tensor_lanes", cut.key}), tensor, cut.key, cut.value, cut.key,
            NearestMultiples(cut.value, tensor), Divisors(cut.value, 65536));
    const int64_t token_lanes = context * tensor;
    if (m.sequence % token_lanes != 0)
      return UsageError(
          "{}: invariance.context_lanes {} * invariance.tensor_lanes {} does not divide model.sequence {}; "
          "set "
          "sequence to {}, or the product to one of {}",
          given_.Where({"invariance.context_lanes", "invariance.tensor_lanes", "model.sequence"}), context,
          tensor, m.sequence, NearestMultiples(m.sequence, token_lanes), Divisors(m.sequence, 65536));
    if (r_.train.global_batch % data != 0)
      return UsageError(
          "{}: invariance.data_lanes {} does not divide train.global_batch {}; set global_batch to {}, or "
          "data_lanes to one of {}",
          given_.Where({"invariance.data_lanes", "train.global_batch"}), data, r_.train.global_batch,
          NearestMultiples(r_.train.global_batch, data), Divisors(r_.train.global_batch, 65536));
    return {};
  }

  Status Data() {
    if (r_.data.sources.empty())
      return UsageError(
          "{}: [data] names no text to train on; set data.path to the prefix of a .bin and .idx pair (made "
          "by "
          "`samestep data pack`), or data.sources to several",
          given_.recipe_name);
    return {};
  }

  Status Batches() {
    // Counts of samples and tokens are 64-bit integers everywhere.
    const double tokens = static_cast<double>(r_.train.steps) * static_cast<double>(r_.train.global_batch) *
                          static_cast<double>(r_.model.sequence);
    if (tokens > kMostTokens)
      return UsageError(
          "{}: train.steps {} * train.global_batch {} * model.sequence {} is {:.3g} tokens; at most {:.3g} "
          "are "
          "accepted",
          given_.Where({"train.steps", "train.global_batch", "model.sequence"}), r_.train.steps,
          r_.train.global_batch, r_.model.sequence, tokens, kMostTokens);
    if (r_.train.micro_batch > r_.train.global_batch)
      return UsageError("{}: train.micro_batch {} is more than train.global_batch {}; set it to {} or less",
                        given_.Where({"train.micro_batch", "train.global_batch"}), r_.train.micro_batch,
                        r_.train.global_batch, r_.train.global_batch);
    return {};
  }

  Status Optimizer() {
    const OptimizerRecipe& o = r_.optimizer;
    const int64_t steps = r_.train.steps;
    if (o.min_lr > o.lr)
      return UsageError("{}: optimizer.min_lr {} is more than optimizer.lr {}; set it to that or less",
                        given_.Where({"optimizer.min_lr", "optimizer.lr"}), o.min_lr.ToString(),
                        o.lr.ToString());
    if (o.lr.ToFloat() == 0)
      return UsageError("{}: optimizer.lr {} is zero in binary32; expected {}",
                        given_.Where({"optimizer.lr"}), o.lr.ToString(),
                        FindField("optimizer.lr")->Expected());
    for (const auto& [key, value] :
         {std::pair{"optimizer.beta1", &o.beta1}, std::pair{"optimizer.beta2", &o.beta2}})
      if (value->ToFloat() == 1)
        return UsageError("{}: {} {} is 1 in binary32, so nothing would ever decay; set 0.9999999 or less",
                          given_.Where({key}), key, value->ToString());
    for (const auto& [key, value] :
         {std::pair{"optimizer.eps", &o.eps}, std::pair{"model.norm_eps", &r_.model.norm_eps}})
      if (value->ToFloat() == 0)
        return UsageError(
            "{}: {} {} is zero in binary32, so a division by zero could follow; set 1e-38 or more",
            given_.Where({key}), key, value->ToString());
    if (o.warmup_steps > steps)
      return UsageError("{}: optimizer.warmup_steps {} is more than train.steps {}; set it to {} or less",
                        given_.Where({"optimizer.warmup_steps", "train.steps"}), o.warmup_steps, steps,
                        steps);
    return Decay();
  }

  Status Decay() {
    const OptimizerRecipe& o = r_.optimizer;
    const int64_t after_warmup = r_.train.steps - o.warmup_steps;
    if (o.schedule == ScheduleKind::kConstant) {
      for (const char* key : {"optimizer.decay_steps", "optimizer.min_lr"})
        if (given_.Has(key) && !(key[10] == 'd' ? o.decay_steps == 0 : o.min_lr.IsZero()))
          return UsageError(
              "{}: {} has no use with optimizer.schedule \"constant\"; remove it, or choose \"cosine\" or "
              "\"wsd\"",
              given_.Where({key}), key);
      return {};
    }
    if (o.schedule == ScheduleKind::kWarmupStableDecay && !given_.Has("optimizer.decay_steps"))
      return UsageError(
          "{}: optimizer.decay_steps is missing from [optimizer]; schedule \"wsd\" needs the number of steps "
          "of "
          "its last phase, from 0 to {}",
          given_.recipe_name, after_warmup);
    if (o.decay_steps > after_warmup)
      return UsageError(
          "{}: optimizer.decay_steps {} is more than the {} steps after the warm-up (train.steps {} - "
          "optimizer.warmup_steps {}); set it to {} or less",
          given_.Where({"optimizer.decay_steps", "train.steps", "optimizer.warmup_steps"}), o.decay_steps,
          after_warmup, r_.train.steps, o.warmup_steps, after_warmup);
    return {};
  }

  const Recipe& r_;
  const GivenFields& given_;
};

}  // namespace

void Derive(Recipe& recipe, const GivenFields& given) {
  ModelRecipe& m = recipe.model;
  const bool llama = m.family == Family::kLlama;
  const int64_t lanes = recipe.invariance.tensor_lanes;
  if (!given.Has("model.vocab_padded")) m.vocab_padded = (m.vocab + lanes - 1) / lanes * lanes;
  if (!given.Has("model.kv_heads")) m.kv_heads = m.heads;
  if (!given.Has("model.head_size")) m.head_size = m.hidden % m.heads == 0 ? m.hidden / m.heads : 0;
  if (!given.Has("model.intermediate")) m.intermediate = 4 * m.hidden;
  if (!given.Has("model.rope_base")) m.rope_base = Decimal::Of(kRopeBase);
  if (!given.Has("model.activation")) m.activation = llama ? Activation::kSwiGlu : Activation::kGeluTanh;
  if (!given.Has("model.tied_output")) m.tied_output = !llama;
  if (!given.Has("model.linear_biases")) m.linear_biases = !llama;
  if (!given.Has("train.micro_batch"))
    recipe.train.micro_batch = std::min<int64_t>(recipe.train.global_batch, 8);
  if (!given.Has("optimizer.decay_steps") && recipe.optimizer.schedule == ScheduleKind::kCosine)
    recipe.optimizer.decay_steps = std::max<int64_t>(0, recipe.train.steps - recipe.optimizer.warmup_steps);
}

Status Validate(const Recipe& recipe, const GivenFields& given) { return Checker(recipe, given).All(); }

}  // namespace samestep
