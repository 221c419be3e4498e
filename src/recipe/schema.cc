#include "recipe/schema.h"

#include <fmt/format.h>

namespace samestep {
namespace {

constexpr Range kCount{1, 4294967295.0};  // at most what the 32-bit step word of a counter holds
constexpr Range kCountOrZero{0, 4294967295.0};
constexpr Range kFeatures{1, 1048576};
constexpr Range kLanes{1, 65536};
constexpr Range kSeed{0, 9223372036854775807.0};
constexpr Range kSeed32{0, 4294967295.0};
constexpr Range kNotNegative{0, 1e30};
constexpr Range kFraction{0, 1, false, true};

template <typename Get>
ChoiceSlot Choice(std::vector<std::string_view> names, Get) {
  // Get yields the enumeration by reference, so one function serves for both directions.
  static_assert(std::is_empty_v<Get>);
  return {std::move(names), [](const Recipe& r) { return static_cast<int>(Get{}(const_cast<Recipe&>(r))); },
          [](Recipe& r, int value) {
            auto& target = Get{}(r);
            target = static_cast<std::remove_reference_t<decltype(target)>>(value);
          }};
}

#define FIELD(Type, member)                                        \
  Slot {                                                           \
    static_cast<Type>([](Recipe& r) -> auto& { return r.member; }) \
  }
#define CHOICE(member, ...)                                            \
  Slot {                                                               \
    Choice({__VA_ARGS__}, [](Recipe& r) -> auto& { return r.member; }) \
  }
#define PATH(member, keyword)                              \
  Slot {                                                   \
    PathSlot {                                             \
      [](Recipe& r) -> auto& { return r.member; }, keyword \
    }                                                      \
  }

constexpr Shapes kNo = Shapes::kNo;
constexpr Shapes kYes = Shapes::kTrajectory;

std::vector<Field> MakeSchema() {
  std::vector<Field> fields;
  std::string_view table;
  const auto add = [&](std::string_view name, Slot slot, std::string_view fallback, std::string_view derived,
                       Range range, std::string_view unit, Shapes shapes, std::string_view documentation) {
    fields.push_back({table, name, std::move(slot), fallback, derived, range, unit, shapes, documentation});
  };

  table = "model";
  add("family", CHOICE(model.family, "llama", "gpt2"), "", "", {}, "", kYes,
      "Llama: RMSNorm, rotary positions, SwiGLU. GPT-2: LayerNorm, learned positions, GELU.");
  add("vocab", FIELD(IntegerSlot, model.vocab), "", "", {1, 16777216}, "tokens", kYes,
      "Number of token ids, which must cover those in the data.");
  add("vocab_padded", FIELD(IntegerSlot, model.vocab_padded), "",
      "vocab rounded up to a multiple of tensor_lanes", {1, 16777216}, "tokens", kYes,
      "Columns of the output projection in memory. Padding is storage only: it is in no sum, checkpoint or "
      "fingerprint.");
  add("hidden", FIELD(IntegerSlot, model.hidden), "", "", kFeatures, "features", kYes,
      "Width of the residual stream.");
  add("layers", FIELD(IntegerSlot, model.layers), "", "", {1, 4096}, "blocks", kYes,
      "Number of blocks, each attention and MLP.");
  add("heads", FIELD(IntegerSlot, model.heads), "", "", {1, 65536}, "heads", kYes,
      "Query heads of each attention.");
  add("kv_heads", FIELD(IntegerSlot, model.kv_heads), "", "heads", {1, 65536}, "heads", kYes,
      "Key and value heads; each serves heads / kv_heads query heads.");
  add("head_size", FIELD(IntegerSlot, model.head_size), "", "hidden / heads", {1, 65536}, "features", kYes,
      "Features of each head; even where positions are rotary.");
  add("intermediate", FIELD(IntegerSlot, model.intermediate), "", "4 * hidden for gpt2, required for llama",
      {1, 16777216}, "features", kYes, "Width of the MLP.");
  add("sequence", FIELD(IntegerSlot, model.sequence), "", "", {1, 16777216}, "tokens", kYes,
      "Tokens of a training sample; each is predicted from those before it.");
  add("norm_eps", FIELD(DecimalSlot, model.norm_eps), "1e-5", "", {0, 1, true}, "", kYes,
      "Added to the mean square (RMSNorm) or variance (LayerNorm) before the root.");
  add("rope_base", FIELD(DecimalSlot, model.rope_base), "", "10000.0 for llama, not used by gpt2",
      {1, 1e12, true}, "", kYes, "Base of the rotary frequencies base^(-2i/head_size).");
  add("activation", CHOICE(model.activation, "swiglu", "gelu", "gelu_tanh"), "",
      "swiglu for llama, gelu_tanh for gpt2", {}, "", kYes,
      "Llama has swiglu; GPT-2 has gelu (by erf) or gelu_tanh.");
  add("tied_output", FIELD(BooleanSlot, model.tied_output), "", "false for llama, true for gpt2", {}, "",
      kYes, "Whether the output projection is the embedding's weight.");
  add("linear_biases", FIELD(BooleanSlot, model.linear_biases), "", "false for llama, true for gpt2", {}, "",
      kYes, "Whether the linear layers of attention and MLP have biases; the output projection never has.");
  add("dropout", FIELD(DecimalSlot, model.dropout), "0.0", "", kFraction, "", kYes,
      "Probability of dropping an activation. Only 0 is accepted so far.");
  add("init_std", FIELD(DecimalSlot, model.init_std), "0.02", "", {0, 100, true}, "", kYes,
      "Standard deviation of the initial weights; gains start at 1, biases at 0.");

  table = "data";
  add("path", SourceSlot{}, "", "none: `sources` instead", {}, "", kNo,
      "The only source: the prefix of a Megatron `.bin` and `.idx` pair, as `samestep data pack` writes it.");
  add("sources", SourcesSlot{}, "", "none: `path` instead", {}, "", kYes,
      "Blend of sources, as `[{path = \"a\", weight = 2}, {path = \"b\", weight = 1}]`. The weights shape "
      "the trajectory, the paths do not.");
  add("split", SplitSlot{}, "\"99,1,0\"", "", {}, "", kYes,
      "Shares of each source's documents for training, validation and test, in order, as Megatron cuts "
      "them.");
  add("seed", FIELD(IntegerSlot, data.seed), "1234", "", kSeed32, "", kYes,
      "Seed of the order of documents and samples.");
  add("tokenizer", PATH(data.tokenizer, "bytes"), "", "none", {}, "", kNo,
      "How `samestep generate` makes text of tokens: `bytes`, a `tokenizer.json`, or a folder with GPT-2's "
      "`vocab.bpe` and `encoder.json`.");
  add("validation", PATH(data.validation, ""), "", "the split's second part", {}, "", kNo,
      "Prefix of a `.bin` and `.idx` pair of its own to evaluate on.");

  table = "train";
  add("steps", FIELD(IntegerSlot, train.steps), "", "", kCount, "steps", kYes,
      "Optimizer steps of the whole run. It shapes the trajectory from the first step on, since the order of "
      "the samples (Megatron's epochs) and the schedule follow from it. A run may be stopped at any step and "
      "resumed; one that is to be longer is another run.");
  add("global_batch", FIELD(IntegerSlot, train.global_batch), "", "", {1, 16777216}, "samples", kYes,
      "Samples of each step; data_lanes must divide it.");
  add("micro_batch", FIELD(IntegerSlot, train.micro_batch), "", "the smaller of global_batch and 8",
      {1, 16777216}, "samples", kNo,
      "Samples that are worked on together: a matter of memory and speed only. Need not divide "
      "global_batch.");
  add("seed", FIELD(IntegerSlot, train.seed), "1234", "", kSeed, "", kYes, "Seed of the initial weights.");
  add("evaluate_every", FIELD(IntegerSlot, train.evaluate_every), "0", "", kCountOrZero, "steps", kNo,
      "Steps between evaluations on held-out samples; 0: none.");
  add("evaluate_samples", FIELD(IntegerSlot, train.evaluate_samples), "64", "", {1, 16777216}, "samples", kNo,
      "Samples of each evaluation: always the same ones, from the first.");
  add("checkpoint_every", FIELD(IntegerSlot, train.checkpoint_every), "0", "", kCountOrZero, "steps", kNo,
      "Steps between checkpoints; 0: only at the end and when stopped.");
  add("keep_checkpoints", FIELD(IntegerSlot, train.keep_checkpoints), "2", "", {1, 1000000}, "checkpoints",
      kNo, "How many checkpoints stay; older ones are removed once a newer one is complete.");
  add("log_every", FIELD(IntegerSlot, train.log_every), "10", "", kCount, "steps", kNo,
      "Steps between lines on the screen; the metrics file has all steps.");

  table = "optimizer";
  add("lr", FIELD(DecimalSlot, optimizer.lr), "", "", {0, 1000, true}, "", kYes,
      "Peak learning rate of AdamW.");
  add("min_lr", FIELD(DecimalSlot, optimizer.min_lr), "0.0", "", {0, 1000}, "", kYes,
      "Learning rate at the end of the decay; at most lr.");
  add("schedule", CHOICE(optimizer.schedule, "constant", "cosine", "wsd"), "\"cosine\"", "", {}, "", kYes,
      "After the warm-up: constant; cosine: half a cosine from lr to min_lr over decay_steps, then min_lr; "
      "wsd: lr, then linear to min_lr over the last decay_steps steps.");
  add("warmup_steps", FIELD(IntegerSlot, optimizer.warmup_steps), "0", "", kCountOrZero, "steps", kYes,
      "Step t of the first warmup_steps has lr * t / warmup_steps.");
  add("decay_steps", FIELD(IntegerSlot, optimizer.decay_steps), "",
      "cosine: all steps after the warm-up; constant: 0; wsd: required", kCountOrZero, "steps", kYes,
      "Length of the decay.");
  add("beta1", FIELD(DecimalSlot, optimizer.beta1), "0.9", "", kFraction, "", kYes,
      "Decay of the running mean of gradients.");
  add("beta2", FIELD(DecimalSlot, optimizer.beta2), "0.95", "", kFraction, "", kYes,
      "Decay of the running mean of squared gradients.");
  add("eps", FIELD(DecimalSlot, optimizer.eps), "1e-8", "", {0, 1, true}, "", kYes,
      "Added to the root of the running mean of squares.");
  add("weight_decay", FIELD(DecimalSlot, optimizer.weight_decay), "0.1", "", {0, 1000}, "", kYes,
      "Decoupled decay of weights of two dimensions; gains and biases have none.");
  add("max_norm", FIELD(DecimalSlot, optimizer.max_norm), "1.0", "", kNotNegative, "", kYes,
      "Gradients of a larger global norm are scaled down to it; 0: never.");

  table = "invariance";
  add("data_lanes", FIELD(IntegerSlot, invariance.data_lanes), "1", "", kLanes, "lanes", kYes,
      "Width over which data parallelism may later be split without changing a bit; divides global_batch.");
  add("tensor_lanes", FIELD(IntegerSlot, invariance.tensor_lanes), "1", "", kLanes, "lanes", kYes,
      "The same for tensor parallelism; divides heads, kv_heads, intermediate and vocab_padded.");
  add("context_lanes", FIELD(IntegerSlot, invariance.context_lanes), "1", "", kLanes, "lanes", kYes,
      "The same for context parallelism; context_lanes * tensor_lanes divides sequence.");
  add("expert_lanes", FIELD(IntegerSlot, invariance.expert_lanes), "1", "", kLanes, "lanes", kYes,
      "The same for expert parallelism. Only 1 is accepted so far.");

  table = "memory";
  add("recompute", CHOICE(memory.recompute, "none", "layer"), "\"none\"", "", {}, "", kNo,
      "layer: keep only each block's input and run the block again in the backward pass; the same bits for "
      "less memory.");

  table = "layout";
  add("data", FIELD(IntegerSlot, layout.data), "1", "", kLanes, "processes", kNo,
      "Processes that share the samples of a batch; each holds whole lanes of invariance.data_lanes.");
  add("tensor", FIELD(IntegerSlot, layout.tensor), "1", "", kLanes, "processes", kNo,
      "Processes that share each layer; each holds whole lanes of invariance.tensor_lanes.");
  add("pipeline", FIELD(IntegerSlot, layout.pipeline), "1", "", kLanes, "processes", kNo,
      "Stages that the layers are cut into.");
  add("chunks", FIELD(IntegerSlot, layout.chunks), "1", "", kLanes, "", kNo,
      "Pieces of the model that each stage holds: more than 1 is the interleaved schedule.");
  add("expert", FIELD(IntegerSlot, layout.expert), "1", "", kLanes, "processes", kNo, "Reserved; must be 1.");
  add("context", FIELD(IntegerSlot, layout.context), "1", "", kLanes, "processes", kNo,
      "Reserved; must be 1.");
  return fields;
}

std::string Bound(double value, bool integer) {
  return integer ? std::to_string(static_cast<int64_t>(value)) : fmt::format("{}", value);
}

}  // namespace

std::string Field::key() const { return fmt::format("{}.{}", table, name); }

std::string Field::Expected() const {
  if (std::holds_alternative<IntegerSlot>(slot)) {
    const std::string high = range.high >= 9e18 ? "9223372036854775807" : Bound(range.high, true);
    return fmt::format("an integer from {} to {}", Bound(range.low, true), high);
  }
  if (std::holds_alternative<DecimalSlot>(slot)) {
    return fmt::format("a decimal number {} {} and {} {}", range.low_open ? "above" : "from",
                       Bound(range.low, false), range.high_open ? "below" : "at most",
                       Bound(range.high, false));
  }
  if (std::holds_alternative<BooleanSlot>(slot)) return "true or false";
  if (const auto* choice = std::get_if<ChoiceSlot>(&slot)) {
    std::string names;
    for (const std::string_view option : choice->names)
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", option);
    return "one of " + names;
  }
  if (const auto* path = std::get_if<PathSlot>(&slot))
    return path->keyword.empty() ? "a path in quotes"
                                 : fmt::format("\"{}\" or a path in quotes", path->keyword);
  if (std::holds_alternative<SplitSlot>(slot)) return "three shares in quotes, such as \"99,1,0\"";
  if (std::holds_alternative<SourcesSlot>(slot))
    return "a list of 1 to 1024 sources, such as [{path = \"a\", weight = 2}, {path = \"b\", weight = 1}]";
  return "a path in quotes";
}

const std::vector<Table>& SchemaTables() {
  static const std::vector<Table> tables = {
      {"model", "The network."},
      {"data",
       "What it reads. Paths are relative to the folder of the recipe; those in `--set`, to the working "
       "folder."},
      {"train", "How long, in which batches, and what is kept."},
      {"optimizer", "AdamW and its schedule."},
      {"invariance",
       "The widths within which layouts share their bits. Wider promises more freedom to change the layout "
       "later, and costs gradient buffers."},
      {"memory", "Trades of memory for time, with the same bits."},
      {"layout",
       "Over how many processes a run is spread: data * tensor * pipeline of them, started by mpirun. "
       "Changes no bit within the widths of [invariance]; `samestep plan` lists what they allow."},
  };
  return tables;
}

const std::vector<Field>& Schema() {
  static const std::vector<Field> schema = MakeSchema();
  return schema;
}

const Field* FindField(std::string_view key) {
  for (const Field& field : Schema())
    if (key.size() == field.table.size() + 1 + field.name.size() &&
        key.substr(0, field.table.size()) == field.table && key[field.table.size()] == '.' &&
        key.substr(field.table.size() + 1) == field.name)
      return &field;
  return nullptr;
}

}  // namespace samestep
