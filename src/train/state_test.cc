#include "train/state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/files.h"

namespace samestep {
namespace {

TrainerConfig TinyConfig() {
  TrainerConfig c;
  c.model = {.family = DecoderFamily::kLlama,
             .vocab = 32,
             .vocab_padded = 32,
             .hidden = 16,
             .layers = 1,
             .heads = 2,
             .kv_heads = 1,
             .head_size = 8,
             .intermediate = 24,
             .sequence = 12,
             .rope_base = Decimal::Of(10000)};
  const auto d = [](const char* text) { return Decimal::Parse(text).value(); };
  c.optimizer = {d("0.9"), d("0.95"), d("1e-8"), d("0.1"), d("1.0")};
  c.schedule = {.kind = DecayKind::kCosine,
                .lr = d("0.01"),
                .min_lr = d("0.001"),
                .warmup_steps = 2,
                .decay_steps = 6,
                .steps = 8};
  c.seed = 7;
  c.global_batch = 4;
  c.micro_batch = 2;
  return c;
}

Status Tokens(int64_t sample, std::span<int32_t> tokens) {
  for (size_t p = 0; p < tokens.size(); ++p) {
    tokens[p] = static_cast<int32_t>(SplitMix(static_cast<uint64_t>(sample) * 1000 + p) % 32);
  }
  return {};
}

std::string Steps(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) EXPECT_TRUE(trainer.Step().ok());
  return trainer.position().digest.hex();
}

class StateTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeFolders(root_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(root_).ok()); }
  std::string SaveAfter(int steps) {
    Trainer trainer(TinyConfig(), Tokens);
    trainer.Initialize();
    Steps(trainer, steps);
    EXPECT_TRUE(SaveState(root_, trainer, identity_).ok());
    return LatestCheckpoint(root_).value();
  }
  std::string Straight() {
    Trainer trainer(TinyConfig(), Tokens);
    trainer.Initialize();
    return Steps(trainer, 8);
  }
  const std::string root_ = testing::TempDir() + "state_test_" + std::to_string(::getpid());
  const RunIdentity identity_{"recipe", "a = 1\nb = 2\n", "data"};
};

TEST_F(StateTest, ResumedAnywhereTheTrajectoryIsTheSame) {
  const std::string straight = Straight();
  for (int at : {1, 3, 7}) {
    const std::string folder = SaveAfter(at);
    TrainerConfig config = TinyConfig();
    config.micro_batch = 3;  // resumed with another micro-batch
    Trainer trainer(config, Tokens);
    ASSERT_TRUE(LoadState(folder, trainer, identity_).ok());
    EXPECT_EQ(Steps(trainer, 8 - at), straight) << at;
  }
}

// Each piece of the state left out on its own must change the trajectory: else it need not be there, or the
// digest would not see that it is missing.
TEST_F(StateTest, EachPieceOfStateMatters) {
  const std::string straight = Straight(), folder = SaveAfter(3);
  const auto without = [&](auto&& omit) {
    Trainer trainer(TinyConfig(), Tokens);
    EXPECT_TRUE(LoadState(folder, trainer, identity_).ok());
    omit(trainer);
    return Steps(trainer, 5);
  };
  EXPECT_EQ(without([](Trainer&) {}), straight);
  EXPECT_NE(without([](Trainer& t) { t.position().step = 2; }), straight);
  EXPECT_NE(without([](Trainer& t) { t.position().consumed_samples = 8; }), straight);
  EXPECT_NE(without([](Trainer& t) { t.position().digest = Digest(); }), straight);
  Trainer any(TinyConfig(), Tokens);
  const size_t tensors = StateTensorsOf(any).size();
  for (size_t i = 0; i < tensors; ++i) {
    EXPECT_NE(without([&](Trainer& t) {
                const TensorView view = StateTensorsOf(t)[i].view;
                std::fill_n(view.f32(), view.elements(), 0.5f);
              }),
              straight)
        << StateTensorsOf(any)[i].name;
  }
}

TEST_F(StateTest, DamageIsRefusedAndNamed) {
  const std::string folder = SaveAfter(2), path = folder + "/optimizer.safetensors";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-4, std::ios::end);
  char byte = 0;
  file.get(byte);
  file.seekp(-4, std::ios::end);
  file.put(static_cast<char>(byte ^ 1));
  file.close();
  Trainer trainer(TinyConfig(), Tokens);
  const Status status = LoadState(folder, trainer, identity_);
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_NE(status.message().find("second_moment.model.norm.weight"), std::string::npos) << status.message();
}

TEST_F(StateTest, TruncationAtAnyByteIsRefused) {
  const std::string folder = SaveAfter(1);
  for (const char* name : {"weights.safetensors", "manifest.json"}) {
    const std::string path = folder + "/" + name, whole = ReadFile(path).value();
    for (size_t keep = 0; keep < whole.size(); keep += 1 + whole.size() / 97) {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << whole.substr(0, keep);
      Trainer trainer(TinyConfig(), Tokens);
      EXPECT_FALSE(LoadState(folder, trainer, identity_).ok()) << name << " " << keep;
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << whole;
  }
  Trainer trainer(TinyConfig(), Tokens);
  EXPECT_TRUE(LoadState(folder, trainer, identity_).ok());
}

TEST_F(StateTest, AnotherRecipeOrOtherDataIsRefused) {
  const std::string folder = SaveAfter(1);
  Trainer trainer(TinyConfig(), Tokens);
  const Status recipe = LoadState(folder, trainer, {"other", "a = 1\nb = 3\n", "data"});
  EXPECT_EQ(recipe.code(), StatusCode::kUsage);
  EXPECT_NE(recipe.message().find("\"b = 2\" there, \"b = 3\" here"), std::string::npos) << recipe.message();
  EXPECT_EQ(LoadState(folder, trainer, {"recipe", "", "other data"}).code(), StatusCode::kInvalid);
}

TEST_F(StateTest, OldCheckpointsAndHalfOnesAreRemoved) {
  for (int at : {1, 2, 3, 4}) SaveAfter(at);
  ASSERT_TRUE(MakeFolders(root_ + "/step-00000009.partial").ok());
  ASSERT_TRUE(KeepCheckpoints(root_, 2).ok());
  EXPECT_EQ(ListFolder(root_).value(), (std::vector<std::string>{"step-00000003", "step-00000004"}));
}

TEST_F(StateTest, TheSameStepIsReplacedWhole) {
  const std::string folder = SaveAfter(2), before = ReadFile(folder + "/manifest.json").value();
  SaveAfter(2);
  EXPECT_EQ(ReadFile(folder + "/manifest.json").value(), before);  // no time, no host in it
  EXPECT_EQ(ListFolder(root_).value().size(), 1u);
}

}  // namespace
}  // namespace samestep
