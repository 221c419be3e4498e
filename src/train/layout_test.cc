// One trajectory in every layout that the widths allow: ranks are threads of this test.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/parallel_for.h"
#include "comm/testing/thread_communicator.h"
#include "kernels/registry.h"
#include "train/trainer.h"

namespace samestep {
namespace {

constexpr int64_t kVocab = 61;

TrainerConfig Config(DecoderFamily family, bool tied, int context_lanes, int64_t micro_batch,
                     bool recompute = false) {
  const bool llama = family == DecoderFamily::kLlama;
  TrainerConfig c;
  c.model = {.family = family,
             .vocab = kVocab,
             .vocab_padded = 68,
             .hidden = 24,
             .layers = 4,
             .heads = 8,
             .kv_heads = llama ? 4 : 8,
             .head_size = llama ? 4 : 3,
             .intermediate = 40,
             .sequence = 16,
             .rope_base = Decimal::Of(10000),
             .mlp = llama ? MlpKind::kSwiglu : MlpKind::kGeluTanh,
             .tied_output = tied,
             .linear_biases = !llama,
             .init_std = 0.2f,
             .data_lanes = 4,
             .tensor_lanes = 4,
             .context_lanes = context_lanes,
             .recompute_layers = recompute};
  const auto d = [](const char* text) { return Decimal::Parse(text).value(); };
  c.optimizer = {d("0.9"), d("0.95"), d("1e-8"), d("0.1"), d("1.0")};
  c.schedule = {.kind = DecayKind::kConstant, .lr = d("0.01"), .min_lr = d("0"), .steps = 8};
  c.seed = 7;
  c.global_batch = 8;
  c.micro_batch = micro_batch;
  return c;
}

LayoutWidths WidthsOf(const TrainerConfig& c) {
  return {.data_lanes = c.model.data_lanes,
          .tensor_lanes = c.model.tensor_lanes,
          .context_lanes = c.model.context_lanes,
          .layers = c.model.layers,
          .global_batch = c.global_batch,
          .micro_batch = c.micro_batch};
}

// One target in nine is masked.
Status Tokens(int64_t sample, std::span<int32_t> tokens) {
  for (size_t p = 0; p < tokens.size(); ++p) {
    const uint64_t word = SplitMix(static_cast<uint64_t>(sample) * 1000 + p);
    tokens[p] = p > 0 && word % 9 == 0 ? -1 : static_cast<int32_t>(word % kVocab);
  }
  return {};
}

struct Outcome {
  std::vector<std::string> digests;  // of each rank
  std::vector<double> evaluations;
};

// `before_step` may plant something on a rank.
Outcome Train(const TrainerConfig& config, const Layout& layout, int steps,
              const std::function<void(int rank, int step)>& before_step = {}) {
  Outcome outcome;
  outcome.digests.resize(static_cast<size_t>(layout.ranks()));
  outcome.evaluations.resize(outcome.digests.size());
  RunAsRanks(layout.ranks(), [&](Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    ProcessGrid grid(world, layout);
    Trainer trainer(config, Tokens, grid);
    trainer.Initialize();
    for (int i = 1; i <= steps; ++i) {
      if (before_step) before_step(world.rank(), i);
      const Result<StepReport> report = trainer.Step();
      if (!report.ok()) {
        outcome.digests[rank] = report.status().message();
        return;
      }
    }
    outcome.digests[rank] = trainer.position().digest.hex();
    const Result<double> evaluation = trainer.Evaluate(Tokens, 5);
    outcome.evaluations[rank] = evaluation.ok() ? *evaluation : -1;
  });
  return outcome;
}

class LayoutTest : public testing::Test {
 protected:
  void SetUp() override { SetSchedule({.threads = 1}); }
  void TearDown() override { SetSchedule({}); }

  void ExpectOneTrajectory(const TrainerConfig& config, const std::vector<int>& rank_counts) {
    const Outcome alone = Train(config, {}, 3);
    int layouts = 0;
    for (const int ranks : rank_counts) {
      for (const Layout& layout : AllowedLayouts(WidthsOf(config), ranks)) {
        const Outcome together = Train(config, layout, 3);
        for (size_t r = 0; r < together.digests.size(); ++r) {
          EXPECT_EQ(together.digests[r], alone.digests[0]) << layout.ToString() << ", rank " << r;
          EXPECT_EQ(together.evaluations[r], alone.evaluations[0]) << layout.ToString() << ", rank " << r;
        }
        ++layouts;
      }
    }
    EXPECT_GE(layouts, 6);
  }
};

TEST_F(LayoutTest, LlamaInAllLayouts) {
  ExpectOneTrajectory(Config(DecoderFamily::kLlama, false, 1, 1), {2, 4, 8});
}
TEST_F(LayoutTest, TiedLlamaWithTokenLanesAndRecomputation) {
  ExpectOneTrajectory(Config(DecoderFamily::kLlama, true, 2, 2, true), {2, 4, 8});
}
TEST_F(LayoutTest, Gpt2InAllLayouts) {
  ExpectOneTrajectory(Config(DecoderFamily::kGpt2, true, 1, 1), {2, 4, 8});
}
TEST_F(LayoutTest, UntiedGpt2WithTokenLanes) {
  ExpectOneTrajectory(Config(DecoderFamily::kGpt2, false, 2, 4), {2, 4, 8});
}

// Runs every call, and changes what one rank makes of some.
class Meddler : public CallInterceptor {
 public:
  explicit Meddler(std::function<void(const Call&)> after) : after_(std::move(after)) {}
  void Execute(const Call& call) override {
    samestep::Execute(call);
    after_(call);
  }

 private:
  std::function<void(const Call&)> after_;
};

// Negative control: ranks added one after another, as a communication library may.
TEST_F(LayoutTest, AnotherOrderOfRanksIsSeen) {
  const TrainerConfig config = Config(DecoderFamily::kLlama, false, 1, 1);
  const std::string alone = Train(config, {}, 1).digests[0];
  for (const Layout& layout : {Layout{.data = 4}, Layout{.tensor = 4}}) {
    static thread_local std::unique_ptr<Meddler> meddler;
    const auto plant = [](int, int) {
      meddler = std::make_unique<Meddler>([](const Call& call) {
        if (call.kernel().name != "sum.tree") return;
        const TensorView &src = call.view(0), &dst = call.view(1);
        const int64_t n = dst.elements();
        if (src.shape[0] < 4 || !src.contiguous() || !dst.contiguous()) return;
        for (int64_t i = 0; i < n; ++i) {
          float sum = src.f32()[i];
          for (int64_t r = 1; r < src.shape[0]; ++r) sum += src.f32()[r * n + i];
          dst.f32()[i] = sum;
        }
      });
      CallContext::Current().interceptor = meddler.get();
    };
    EXPECT_NE(Train(config, layout, 1, plant).digests[0], alone) << layout.ToString();
  }
}

// A processor that gets one bit wrong in what its tensor group computes, too.
TEST_F(LayoutTest, AWrongReplicaIsNamed) {
  const TrainerConfig config = Config(DecoderFamily::kLlama, false, 1, 1);
  static thread_local std::unique_ptr<Meddler> meddler;
  const auto plant = [](int rank, int step) {
    if (rank != 2 || step != 2) return;
    meddler = std::make_unique<Meddler>([](const Call& call) {
      if (call.kernel().name != "adamw" || CallContext::Current().module != "model.norm.weight") return;
      float& weight = call.view(0).f32()[0];
      weight = std::nextafter(weight, 2.0f);
    });
    CallContext::Current().interceptor = meddler.get();
  };
  const Outcome outcome = Train(config, {.tensor = 4}, 3, plant);
  for (const std::string& message : outcome.digests) {
    EXPECT_THAT(message, testing::StartsWith("step 2: rank 2 computed other bits of model.norm.weight than "
                                             "ranks 0, 1 and 3"));
  }
}

}  // namespace
}  // namespace samestep
