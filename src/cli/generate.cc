// samestep generate: text that a trained model writes.
#include <cmath>
#include <limits>
#include <memory>

#include "base/parallel_for.h"
#include "base/progress.h"
#include "cli/command.h"
#include "data/tokenizer.h"
#include "train/sampling.h"
#include "train/trained_model.h"

namespace samestep {
namespace {

// One below the largest integer, since CLI11 reads whatever is larger as the largest.
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max() - 1;

struct GenerateArguments {
  std::string run, checkpoint, prompt = "\n", tokenizer;
  int64_t tokens = 200;
  SamplingOptions sampling;
  int threads = 0;
};

Result<std::string> Generate(const GenerateArguments& a) {
  SAMESTEP_ASSIGN_OR_RETURN(TrainedModel trained, LoadTrainedModel(a.run, a.checkpoint));
  const std::string name = a.tokenizer.empty() ? trained.recipe.data.tokenizer : a.tokenizer;
  if (name.empty())
    return UsageError("the recipe names no tokenizer; add data.tokenizer, or use --tokenizer");
  SAMESTEP_ASSIGN_OR_RETURN(const std::shared_ptr<const Tokenizer> tokenizer, OpenTokenizer(name));
  SAMESTEP_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->Encode(a.prompt));
  if (ids.empty()) return UsageError("the prompt holds no token; give at least one character with --prompt");
  const DecoderConfig& config = trained.model->config();
  for (int32_t id : ids) {
    if (id >= config.vocab) {
      return UsageError(
          "the prompt has token {}, the model's vocabulary {} tokens; is it the model's tokenizer?", id,
          config.vocab);
    }
  }
  Tensor logits = Tensor::Empty({config.vocab});
  Progress progress("generating", a.tokens);
  for (int64_t i = 0; i < a.tokens; ++i) {
    progress.Update(i);
    const size_t window = std::min(ids.size(), static_cast<size_t>(config.sequence));
    trained.model->NextTokenLogits(std::span(ids).last(window), logits.view());
    const int32_t next = SampleToken({logits.f32(), static_cast<size_t>(config.vocab)}, a.sampling, i);
    if (next == tokenizer->eod()) break;
    ids.push_back(next);
  }
  progress.Clear();
  return tokenizer->Decode(ids);
}

int RunGenerate(const GenerateArguments& a, const Output& out) {
  // CLI::Range lets a NaN pass.
  if (std::isnan(a.sampling.temperature)) {
    return out.Error(UsageError("--temperature nan: it must be a number from 0 to 100"));
  }
  SetSchedule({a.threads, 0});
  const Result<std::string> text = Generate(a);
  if (!text.ok()) return out.Error(text.status());
  nlohmann::ordered_json object;
  object["text"] = *text;
  out.Result(object, *text);
  return 0;
}

const bool registered = RegisterCommand("generate", "Text that a trained model writes", [](CLI::App& app) {
  auto a = std::make_shared<GenerateArguments>();
  app.add_option("RUN", a->run, "Folder of the run")->required();
  app.add_option("--checkpoint", a->checkpoint, "Checkpoint folder (default: the newest of the run)");
  app.add_option("--prompt", a->prompt, "Text to continue");
  app.add_option("--tokens", a->tokens, "How many tokens to add (default 200)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--temperature", a->sampling.temperature, "0: the likeliest token (default 0.8)")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", a->sampling.top_k, "Choose among the K likeliest (default: all)")
      ->check(CLI::Range(int64_t{0}, kLargest));
  app.add_option("--seed", a->sampling.seed, "Of the choices (default 0)")
      ->check(CLI::Range(int64_t{0}, kLargest));
  app.add_option("--tokenizer", a->tokenizer, "Instead of the recipe's data.tokenizer");
  app.add_option("--threads", a->threads, "Threads (default: one for each core); changes no character")
      ->check(CLI::Range(1, 1024));
  app.footer("Example:\n  samestep generate runs/a --prompt 'And God said' --tokens 300");
  return [a](const Output& out) { return RunGenerate(*a, out); };
});

}  // namespace
}  // namespace samestep
