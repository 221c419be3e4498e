// Time of a training step, alone or under mpirun: step_bench MODEL [threads=2 data=2 ...]. Tokens are
// synthetic, so nothing but the step is timed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>

#include "base/parallel_for.h"
#include "comm/world.h"
#include "fingerprint/fingerprint.h"
#include "kernels/registry.h"
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

// Where the time of a step goes: by kernel, and between them (moves between ranks, allocation).
class KernelClock : public CallObserver {
 public:
  void BeforeCall(const Call&) override { begin_ = Clock::now(); }
  void AfterCall(const Call& call) override {
    seconds_[call.kernel().name] += std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  void Print(int64_t steps, double all_steps) const {
    double in_kernels = 0;
    for (const auto& [name, seconds] : seconds_) {
      in_kernels += seconds;
      fmt::print("  {:<28} {:8.4f} s a step\n", name, seconds / static_cast<double>(steps));
    }
    fmt::print("  {:<28} {:8.4f} s a step\n", "between kernels",
               (all_steps - in_kernels) / static_cast<double>(steps));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  std::map<std::string, double> seconds_;
};

// "threads=2 steps=5 data=2 tensor=1 pipeline=1 chunks=1 lanes=2 micro_batch=1 batch=20": what is not given
// is 1, the machine's, or the model's. `lanes`: data and tensor lanes that are promised.
int64_t Option(int argc, char** argv, const std::string& name, int64_t fallback) {
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(name + "=")) return std::atoll(argument.c_str() + name.size() + 1);
  }
  return fallback;
}

int Main(int argc, char** argv) {
  const auto model = argc > 1 ? Models().find(argv[1]) : Models().end();
  if (model == Models().end()) {
    fmt::print(stderr,
               "usage: [mpirun -n N] step_bench MODEL [threads=T steps=S data=D tensor=T pipeline=P chunks=C "
               "lanes=L micro_batch=M batch=B profile=1]; models:");
    for (const auto& [name, config] : Models()) fmt::print(stderr, " {}", name);
    fmt::print(stderr, "\n");
    return 3;
  }
  Result<World> world = World::Join();
  SAMESTEP_CHECK(world.ok());
  const auto option = [&](const char* name, int64_t fallback) { return Option(argc, argv, name, fallback); };
  SetSchedule({static_cast<int>(option("threads", 0)), 0});
  const int64_t steps = option("steps", 5);
  TrainerConfig config = model->second;
  const auto decimal = [](const char* text) { return Decimal::Parse(text).value(); };
  config.optimizer = {decimal("0.9"), decimal("0.95"), decimal("1e-8"), decimal("0.1"), decimal("1.0")};
  config.schedule.lr = decimal("3e-4");
  config.schedule.steps = 1000000;
  config.global_batch = option("batch", config.global_batch);
  config.micro_batch = option("micro_batch", config.global_batch);
  config.model.data_lanes = config.model.tensor_lanes = static_cast<int>(option("lanes", 1));
  const Layout layout{static_cast<int>(option("data", 1)), static_cast<int>(option("tensor", 1)),
                      static_cast<int>(option("pipeline", 1)), static_cast<int>(option("chunks", 1))};
  ProcessGrid grid(world->group(), layout);
  Trainer trainer(
      config,
      [&](int64_t sample, std::span<int32_t> tokens) {
        for (size_t p = 0; p < tokens.size(); ++p) {
          tokens[p] = static_cast<int32_t>(SplitMix(static_cast<uint64_t>(sample) * 4096 + p) %
                                           static_cast<uint64_t>(config.model.vocab));
        }
        return Status();
      },
      grid);
  trainer.Initialize();
  std::vector<double> seconds;
  uint64_t sent = 0;
  KernelClock clock;
  for (int64_t i = 0; i <= steps; ++i) {  // the first warms up
    world->group().Barrier();
    if (i == 1 && option("profile", 0) != 0) CallContext::Current().AddObserver(&clock);
    const uint64_t before = world->group().bytes_sent();
    const auto begin = std::chrono::steady_clock::now();
    SAMESTEP_CHECK(trainer.Step().ok());
    sent = world->group().bytes_sent() - before;
    if (i > 0)
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double tokens = static_cast<double>(config.global_batch * config.model.sequence);
  const double parameters = static_cast<double>(trainer.model().parameters().elements());
  if (world->group().rank() == 0) {
    fmt::print(
        "{} {} threads {}: median {:.4f} s, best {:.4f} s, {:.1f} tokens/s, {:.1f} GFLOP/s by 6 x parameters "
        "x "
        "tokens, {} bytes sent a step by rank 0, digest {}\n",
        argv[1], layout.ToString(), ThreadCount(), median, seconds.front(), tokens / median,
        6e-9 * parameters * tokens / median, sent, trainer.position().digest.hex());
    if (option("profile", 0) != 0) clock.Print(steps, std::accumulate(seconds.begin(), seconds.end(), 0.0));
  }
  world->Leave();
  return 0;
}

}  // namespace
}  // namespace samestep

int main(int argc, char** argv) { return samestep::Main(argc, argv); }
