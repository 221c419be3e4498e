// Time of a training step: step_bench MODEL [threads] [steps]. Tokens are synthetic, so nothing but the step
// is timed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>

#include "base/parallel_for.h"
#include "fingerprint/fingerprint.h"
#include "train/trainer.h"

namespace samestep {
namespace {

TrainerConfig Gpt2(int64_t layers, int64_t hidden, int64_t batch, int64_t sequence) {
  TrainerConfig c;
  c.model = {.family = DecoderFamily::kGpt2,
             .vocab = 50257,
             .vocab_padded = 50304,
             .hidden = hidden,
             .layers = layers,
             .heads = hidden / 64,
             .kv_heads = hidden / 64,
             .head_size = 64,
             .intermediate = 4 * hidden,
             .sequence = sequence,
             .rope_base = Decimal(),
             .mlp = MlpKind::kGeluTanh,
             .tied_output = true,
             .linear_biases = true};
  c.global_batch = batch;
  return c;
}

TrainerConfig Llama(int64_t layers, int64_t hidden, int64_t vocab, int64_t batch, int64_t sequence) {
  TrainerConfig c;
  c.model = {.family = DecoderFamily::kLlama,
             .vocab = vocab,
             .vocab_padded = vocab,
             .hidden = hidden,
             .layers = layers,
             .heads = hidden / 32,
             .kv_heads = hidden / 64,
             .head_size = 32,
             .intermediate = hidden * 11 / 4,
             .sequence = sequence,
             .rope_base = Decimal::Of(10000)};
  c.global_batch = batch;
  return c;
}

const std::map<std::string, TrainerConfig>& Models() {
  static const std::map<std::string, TrainerConfig> models = {{"gpt2-124m-4x512", Gpt2(12, 768, 4, 512)},
                                                              {"gpt2-124m-4x64", Gpt2(12, 768, 4, 64)},
                                                              {"gpt-6x384-4x64", Gpt2(6, 384, 4, 64)},
                                                              {"llama-4x256", Llama(4, 256, 32000, 4, 256)},
                                                              {"quickstart", Llama(4, 128, 257, 16, 128)}};
  return models;
}

int Main(int argc, char** argv) {
  const auto model = argc > 1 ? Models().find(argv[1]) : Models().end();
  if (model == Models().end()) {
    fmt::print(stderr, "usage: step_bench MODEL [threads] [steps]; models:");
    for (const auto& [name, config] : Models()) fmt::print(stderr, " {}", name);
    fmt::print(stderr, "\n");
    return 3;
  }
  SetSchedule({argc > 2 ? std::atoi(argv[2]) : 0, 0});
  const int steps = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
  TrainerConfig config = model->second;
  const auto decimal = [](const char* text) { return Decimal::Parse(text).value(); };
  config.optimizer = {decimal("0.9"), decimal("0.95"), decimal("1e-8"), decimal("0.1"), decimal("1.0")};
  config.schedule.lr = decimal("3e-4");
  config.schedule.steps = 1000000;
  config.micro_batch = config.global_batch;
  Trainer trainer(config, [&](int64_t sample, std::span<int32_t> tokens) {
    for (size_t p = 0; p < tokens.size(); ++p) {
      tokens[p] = static_cast<int32_t>(SplitMix(static_cast<uint64_t>(sample) * 4096 + p) %
                                       static_cast<uint64_t>(config.model.vocab));
    }
    return Status();
  });
  trainer.Initialize();
  std::vector<double> seconds;
  for (int i = 0; i <= steps; ++i) {  // the first warms up
    const auto begin = std::chrono::steady_clock::now();
    SAMESTEP_CHECK(trainer.Step().ok());
    if (i > 0)
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double tokens = static_cast<double>(config.global_batch * config.model.sequence);
  const double parameters = static_cast<double>(trainer.model().parameters().elements());
  fmt::print(
      "{} threads {}: median {:.4f} s, best {:.4f} s, {:.0f} tokens/s, {:.1f} GFLOP/s by 6 x parameters x "
      "tokens\n",
      argv[1], ThreadCount(), median, seconds.front(), tokens / median, 6e-9 * parameters * tokens / median);
  return 0;
}

}  // namespace
}  // namespace samestep

int main(int argc, char** argv) { return samestep::Main(argc, argv); }
