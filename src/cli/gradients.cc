// samestep gradients: loss and gradients of one batch, from and to safetensors: to compare a model with
// another implementation of it.
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/parallel_for.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/safetensors.h"
#include "cli/command.h"
#include "kernels/exact_sum/exact_sum.h"
#include "model/decoder.h"
#include "plan/from_recipe.h"

namespace samestep {
namespace {

struct GradientsArguments {
  std::string recipe, weights, tokens, output;
  std::vector<std::string> set;
};

// The tensor "tokens": I64 or I32 [samples, sequence + 1].
Result<std::vector<int32_t>> ReadTokens(const std::string& path, const DecoderConfig& config) {
  SAMESTEP_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  const SafetensorsTensor* t = file.Find("tokens");
  if (t == nullptr) return InvalidError("{}: no tensor \"tokens\"", path);
  const bool wide = t->type == SafetensorsType::kI64;
  if ((!wide && t->type != SafetensorsType::kI32) || t->shape.size() != 2 ||
      t->shape[1] != static_cast<uint64_t>(config.sequence + 1) || t->shape[0] == 0) {
    return InvalidError("{}: \"tokens\" is {} [{}], expected I64 or I32 [samples, {}]", path,
                        SafetensorsTypeName(t->type), fmt::join(t->shape, ", "), config.sequence + 1);
  }
  std::vector<int32_t> tokens(t->bytes.size() / (wide ? 8 : 4));
  for (size_t i = 0; i < tokens.size(); ++i) {
    int64_t value = 0;
    int32_t narrow = 0;
    if (wide) {
      std::memcpy(&value, t->bytes.data() + 8 * i, 8);
    } else {
      std::memcpy(&narrow, t->bytes.data() + 4 * i, 4);
      value = narrow;
    }
    if (value < 0 || value >= config.vocab) {
      return InvalidError("{}: token {} at {} is not in the model's vocabulary of {}", path, value, i,
                          config.vocab);
    }
    tokens[i] = static_cast<int32_t>(value);
  }
  return tokens;
}

// Also by another name.
bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;  // one does not exist: not the same
  return std::filesystem::equivalent(a, b, error) && !error;
}

Result<double> Gradients(const GradientsArguments& a) {
  for (const std::string& input : {a.recipe, a.weights, a.tokens}) {
    if (IsSameFile(input, a.output)) {
      return UsageError("--output {} would overwrite the input {}; name another file", a.output, input);
    }
  }
  SAMESTEP_ASSIGN_OR_RETURN(const Recipe recipe, LoadRecipe(a.recipe, a.set));
  const DecoderConfig config = DecoderConfigOf(recipe);
  SAMESTEP_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, ReadTokens(a.tokens, config));
  const int64_t s = config.sequence, samples = static_cast<int64_t>(tokens.size()) / (s + 1);
  if (samples % config.data_lanes != 0) {
    return UsageError("{} samples do not divide into invariance.data_lanes = {}", samples, config.data_lanes);
  }
  SAMESTEP_RETURN_IF_ERROR(
      CheckMemory({.model = config, .layout = {}, .global_batch = samples, .micro_batch = samples}, 1));
  Decoder model(config, samples);
  SAMESTEP_RETURN_IF_ERROR(ImportWeights(a.weights, config, model.parameters()));
  Tensor inputs = Tensor::Empty({samples, s}, DType::kI32),
         targets = Tensor::Empty({samples, s}, DType::kI32);
  for (int64_t i = 0; i < samples; ++i) {
    const int32_t* sample = tokens.data() + i * (s + 1);
    std::memcpy(inputs.i32() + i * s, sample, static_cast<size_t>(s) * 4);
    std::memcpy(targets.i32() + i * s, sample + 1, static_cast<size_t>(s) * 4);
  }
  Tensor state = Tensor::Zeros({kExactSumWords}, DType::kI64);
  model.RunStep({model.MakeBatch(0, samples, config.data_lanes, inputs.view(), targets.view())},
                1.0f / static_cast<float>(samples * s), state.view());
  SAMESTEP_RETURN_IF_ERROR(ExportTensors(a.output, config, model.parameters(), Tensors::kGradients));
  return RoundExactSum(state.view()) / static_cast<double>(samples * s);
}

int RunGradients(const GradientsArguments& a, const Output& out) {
  const Result<double> loss = Gradients(a);
  if (!loss.ok()) return out.Error(loss.status());
  nlohmann::ordered_json object;
  object["loss"] = *loss;
  object["gradients"] = a.output;
  out.Result(object, fmt::format("loss {:.9f}; gradients in {}", *loss, a.output));
  return 0;
}

const bool registered = RegisterCommand(
    "gradients", "Loss and gradients of a batch, to compare with another implementation", [](CLI::App& app) {
      auto a = std::make_shared<GradientsArguments>();
      app.add_option("RECIPE", a->recipe, "Recipe (TOML); its [model] counts")->required();
      app.add_option("--weights", a->weights, "safetensors file in Hugging Face naming")->required();
      app.add_option("--tokens", a->tokens, "safetensors file with `tokens` [samples, sequence + 1]")
          ->required();
      app.add_option("-o,--output", a->output, "safetensors file for the gradients")->required();
      app.add_option("--set", a->set, "Override a field of the recipe (repeatable)")->allow_extra_args(false);
      app.footer(
          "Example:\n  samestep gradients recipe.toml --weights model.safetensors --tokens batch.safetensors "
          "-o gradients.safetensors");
      return [a](const Output& out) { return RunGradients(*a, out); };
    });

}  // namespace
}  // namespace samestep
