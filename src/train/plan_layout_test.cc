// The plan against reality: tensors that real trainings hold, and bytes that they send, rank by rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/parallel_for.h"
#include "comm/testing/thread_communicator.h"
#include "plan/plan.h"
#include "train/trainer.h"

namespace samestep {
namespace {

constexpr int64_t kVocab = 61;

struct Variant {
  DecoderFamily family = DecoderFamily::kLlama;
  bool tied = false;
  int context_lanes = 1;
  int64_t micro_batch = 1;
  bool recompute = false;
  MlpKind mlp = MlpKind::kSwiglu;
};

TrainerConfig Config(const Variant& v) {
  const bool llama = v.family == DecoderFamily::kLlama;
  TrainerConfig c;
  c.model = {.family = v.family,
             .vocab = kVocab,
             .vocab_padded = 80,  // the last of four tensor ranks has one real row
             .hidden = 24,
             .layers = 5,
             .heads = 8,
             .kv_heads = llama ? 4 : 8,
             .head_size = llama ? 4 : 3,
             .intermediate = 40,
             .sequence = 16,
             .rope_base = Decimal::Of(10000),
             .mlp = v.mlp,
             .tied_output = v.tied,
             .linear_biases = !llama,
             .init_std = 0.2f,
             .data_lanes = 8,
             .tensor_lanes = 4,
             .context_lanes = v.context_lanes,
             .recompute_layers = v.recompute};
  const auto d = [](const char* text) { return Decimal::Parse(text).value(); };
  c.optimizer = {d("0.9"), d("0.95"), d("1e-8"), d("0.1"), d("1.0")};
  c.schedule = {.kind = DecayKind::kConstant, .lr = d("0.01"), .min_lr = d("0"), .steps = 8};
  c.seed = 7;
  c.global_batch = 16;
  c.micro_batch = v.micro_batch;
  return c;
}

PlanConfig PlanOf(const TrainerConfig& c, const Layout& layout) {
  return {.model = c.model, .layout = layout, .global_batch = c.global_batch, .micro_batch = c.micro_batch};
}

// Tokens of low numbers only, so that the first tensor rank holds all rows that are chosen.
Status LowTokens(int64_t sample, std::span<int32_t> tokens) {
  for (size_t p = 0; p < tokens.size(); ++p) {
    tokens[p] = static_cast<int32_t>(SplitMix(static_cast<uint64_t>(sample) * 1000 + p) % 8);
  }
  return {};
}

Status Tokens(int64_t sample, std::span<int32_t> tokens) {
  for (size_t p = 0; p < tokens.size(); ++p) {
    tokens[p] = static_cast<int32_t>(SplitMix(static_cast<uint64_t>(sample) * 1000 + p) % kVocab);
  }
  return {};
}

struct Seen {
  int64_t alive = 0, peak = 0;  // tensors of the trainer; those of kernels besides
  int64_t kernels = 0;
  int64_t sent = 0;       // in the last step
  int64_t rows_sent = 0;  // of the embedding
  int64_t parameters = 0, owned = 0;
};

// Bytes of the embedding's rows that a rank sends in step `step`, from the tokens.
int64_t EmbeddingRowsSent(const TrainerConfig& c, const ProcessGrid& grid, const TokenReader& reader,
                          int step) {
  const int ranks = grid.layout().tensor, rank = grid.place().tensor;
  if (!grid.first_stage() || ranks == 1) return 0;
  const int64_t s = c.model.sequence, own = s / ranks, shard = c.model.vocab_padded / ranks;
  const Range samples = SamplesOf(grid.layout(), grid.place(), c.global_batch);
  int64_t rows = 0;
  std::vector<int32_t> tokens(static_cast<size_t>(s + 1));
  for (int64_t i = samples.first; i < samples.end(); ++i) {
    EXPECT_TRUE(reader((step - 1) * c.global_batch + i, tokens).ok());
    for (int64_t t = 0; t < s; ++t) rows += t / own != rank && tokens[static_cast<size_t>(t)] / shard == rank;
  }
  return rows * c.model.hidden * 4;
}

// Two steps; the second shows what all further ones take.
std::vector<Seen> Train(const TrainerConfig& config, const Layout& layout, const TokenReader& reader) {
  std::vector<Seen> all(static_cast<size_t>(layout.ranks()));
  RunAsRanks(layout.ranks(), [&](Communicator& world) {
    Seen& seen = all[static_cast<size_t>(world.rank())];
    ProcessGrid grid(world, layout);
    const int64_t before = TensorBytesAlive();
    EXPECT_EQ(before, 0);
    {
      Trainer trainer(config, reader, grid);
      trainer.Initialize();
      EXPECT_TRUE(trainer.Step().ok());
      const uint64_t sent = world.bytes_sent();
      ResetTensorBytesPeak();
      EXPECT_TRUE(trainer.Step().ok());
      seen.sent = static_cast<int64_t>(world.bytes_sent() - sent);
      seen.alive = TensorBytesAlive();
      seen.peak = TensorBytesPeak();
      seen.rows_sent = EmbeddingRowsSent(config, grid, reader, 2);
      for (const Parameter* p : trainer.model().parameters().Held()) {
        seen.parameters += p->shard.elements();
        if (p->owned()) seen.owned += p->owned_shard().elements();
      }
    }
    seen.kernels = TensorBytesAlive();
    seen.alive -= seen.kernels;
    seen.peak -= seen.kernels;
  });
  return all;
}

class PlanAndReality : public testing::Test {
 protected:
  void SetUp() override { SetSchedule({.threads = 1}); }
  void TearDown() override { SetSchedule({}); }

  static void ExpectAgreement(const RankPlan& plan, const Seen& seen) {
    EXPECT_EQ(plan.parameters, seen.parameters);
    EXPECT_EQ(plan.owned_parameters, seen.owned);
    // Tensors but the embedding rows, which are none. What a step needs only for a moment is above what is
    // there after it.
    Count embedding_rows;
    for (const NetworkItem& item : plan.network) embedding_rows += item.at_most ? item.bytes : Count();
    const int64_t rows = plan.place.pipeline == 0 ? rows_ : 0;
    const int64_t tensors = plan.TensorMemory().value() - rows;
    const int64_t sums = 3 * static_cast<int64_t>(AllocatedBytes(88));  // of losses and norm, within a step
    EXPECT_EQ(tensors - plan.transient.value() - sums, seen.alive);
    EXPECT_GE(tensors, seen.peak);
    EXPECT_LE(tensors - plan.transient.value(), seen.peak);
    EXPECT_GE(plan.MemoryOf(MemoryKind::kKernels).value(), seen.kernels);
    EXPECT_EQ(plan.BytesSent().value() - embedding_rows.value(), seen.sent - seen.rows_sent);
    EXPECT_GE(embedding_rows.value(), seen.rows_sent);
  }

  static int CheckAll(const TrainerConfig& config, const std::vector<int>& rank_counts,
                      const TokenReader& reader = Tokens) {
    const LayoutWidths widths{.data_lanes = config.model.data_lanes,
                              .tensor_lanes = config.model.tensor_lanes,
                              .context_lanes = config.model.context_lanes,
                              .layers = config.model.layers,
                              .global_batch = config.global_batch,
                              .micro_batch = config.micro_batch};
    int layouts = 0;
    for (const int ranks : rank_counts) {
      for (const Layout& layout : AllowedLayouts(widths, ranks)) {
        const std::vector<Seen> seen = Train(config, layout, reader);
        for (int rank = 0; rank < ranks; ++rank) {
          const PlanConfig plan = PlanOf(config, layout);
          const RankPlace place = PlaceOf(layout, rank);
          SCOPED_TRACE(fmt::format("{}, rank {}", layout.ToString(), rank));
          const int64_t batch = std::min(config.micro_batch, config.global_batch / layout.data);
          rows_ = layout.tensor == 1
                      ? 0
                      : 3 * 4 * batch * (config.model.sequence / layout.tensor) * config.model.hidden;
          ExpectAgreement(PlanRank(plan, place), seen[static_cast<size_t>(rank)]);
        }
        ++layouts;
      }
    }
    return layouts;
  }

  static int64_t rows_;  // what the plan says of the embedding rows of a first stage
};
int64_t PlanAndReality::rows_ = 0;

TEST_F(PlanAndReality, Llama) { EXPECT_GE(CheckAll(Config({}), {1, 2, 4, 8}), 12); }
TEST_F(PlanAndReality, TiedLlamaWithTokenLanesAndRecomputation) {
  EXPECT_GE(
      CheckAll(Config({.tied = true, .context_lanes = 2, .micro_batch = 2, .recompute = true}), {1, 4, 8}),
      12);
}
TEST_F(PlanAndReality, Gpt2) {
  const Variant v{.family = DecoderFamily::kGpt2, .tied = true, .micro_batch = 3, .mlp = MlpKind::kGeluTanh};
  EXPECT_GE(CheckAll(Config(v), {1, 2, 4, 8}), 12);
}
TEST_F(PlanAndReality, UntiedGpt2WithTokenLanes) {
  const Variant v{
      .family = DecoderFamily::kGpt2, .context_lanes = 4, .micro_batch = 16, .mlp = MlpKind::kGelu};
  EXPECT_GE(CheckAll(Config(v), {1, 4}), 4);
}
TEST_F(PlanAndReality, EmbeddingRowsOfOneRankAlone) {
  EXPECT_GE(CheckAll(Config({.tied = true, .micro_batch = 4}), {2, 4}, LowTokens), 4);
}

// Negative control: the figures of another training are not those of this one.
TEST_F(PlanAndReality, AnotherTrainingIsSeen) {
  const TrainerConfig config = Config({.micro_batch = 2});
  const Layout layout{.data = 2, .tensor = 2};
  const Seen seen = Train(config, layout, LowTokens)[3];  // holds no row that is chosen
  const auto lasting = [&](const TrainerConfig& c) {
    const RankPlan plan = PlanRank(PlanOf(c, layout), PlaceOf(layout, 3));
    return plan.TensorMemory().value() - plan.transient.value();
  };
  const auto sent = [&](const TrainerConfig& c) {
    Count bytes;
    for (const NetworkItem& item : PlanRank(PlanOf(c, layout), PlaceOf(layout, 3)).network) {
      bytes += item.at_most ? Count() : item.bytes;
    }
    return bytes.value();
  };
  TrainerConfig other = config;
  other.model.recompute_layers = true;
  EXPECT_EQ(sent(config), seen.sent);
  EXPECT_NE(sent(other), seen.sent);
  EXPECT_NE(lasting(other), lasting(config));
  other = config;
  other.model.data_lanes = 16;  // one more level of the tree
  EXPECT_NE(lasting(other), lasting(config));
}

}  // namespace
}  // namespace samestep
