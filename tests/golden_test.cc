// Three small recipes whose trajectory digests must come out on every machine: on every instruction set that
// this one has, and wherever else this test is built and run. A change that alters one is a new numerics
// profile.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/parallel_for.h"
#include "data/sample_source.h"
#include "numerics/simd_target.h"
#include "train/from_recipe.h"

namespace samestep {
namespace {

const std::string kFolder = std::string(SAMESTEP_SOURCE_DIR) + "/tests/golden/";

std::string DigestOfRun(const std::string& name, int64_t steps, const std::vector<std::string>& overrides) {
  const Result<Recipe> recipe = LoadRecipe(kFolder + name + ".toml", overrides);
  if (!recipe.ok()) return recipe.status().message();
  const Result<SampleSource> source = SampleSource::Open(TrainingDataOf(*recipe));
  if (!source.ok()) return source.status().message();
  Trainer trainer(TrainerConfigOf(*recipe),
                  [&](int64_t sample, std::span<int32_t> tokens) { return source->Read(sample, tokens); });
  trainer.Initialize();
  for (int64_t i = 0; i < steps; ++i) {
    const Result<StepReport> report = trainer.Step();
    if (!report.ok()) return report.status().message();
  }
  return trainer.position().digest.hex();
}

const nlohmann::json& Golden() {
  static const auto golden = nlohmann::json::parse(std::ifstream(kFolder + "digests.json"));
  return golden;
}

// Under emulation, which is some hundred times slower, 2 steps will do: SAMESTEP_GOLDEN_STEPS=2.
int64_t Steps() {
  const char* steps = std::getenv("SAMESTEP_GOLDEN_STEPS");
  return steps != nullptr && std::string(steps) == "2" ? 2 : 20;
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void TearDown() override {
    EXPECT_TRUE(ForceSimdTarget("best").ok());
    SetSchedule({});
  }
  std::string Expected(const std::string& steps) { return Golden()["fma-1"][GetParam()][steps]; }
};

// Cheap enough for an emulated processor.
TEST_P(GoldenTest, FirstSteps) {
  EXPECT_EQ(DigestOfRun(GetParam(), 2, {"train.micro_batch=2"}), Expected("2"));
}

TEST_P(GoldenTest, BestInstructionSet) {
  const std::string expected = Expected(std::to_string(Steps()));
  EXPECT_EQ(DigestOfRun(GetParam(), Steps(), {}), expected);
  SetSchedule({3, 99});
  EXPECT_EQ(DigestOfRun(GetParam(), Steps(), {"train.micro_batch=1"}), expected);
}

// The slow ones, which lack a fused multiply-add, take fewer steps; the digest is a chain, so each step
// counts.
TEST_P(GoldenTest, EveryInstructionSetOfThisMachine) {
  for (const std::string& target : AvailableSimdTargets()) {
    const bool fused = target != "sse4" && target != "emu128" && target != "scalar";
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    const int64_t steps = fused ? Steps() : 2;
    EXPECT_EQ(DigestOfRun(GetParam(), steps, {}), Expected(std::to_string(steps))) << target;
  }
}

TEST_P(GoldenTest, ScalarReferences) {
  CallContext::Current().use_reference = true;
  EXPECT_EQ(DigestOfRun(GetParam(), 2, {"train.micro_batch=3"}), Expected("2"));
  CallContext::Current().use_reference = false;
}

TEST_P(GoldenTest, AnotherSeedHasAnotherDigest) {
  EXPECT_NE(DigestOfRun(GetParam(), 2, {"train.seed=1234"}), Expected("2"));
}

INSTANTIATE_TEST_SUITE_P(Recipes, GoldenTest, testing::Values("llama", "gpt2", "lanes"));

}  // namespace
}  // namespace samestep
