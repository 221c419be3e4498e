#include "data/sample_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/parallel_for.h"

namespace samestep {
namespace {

class SampleSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        testing::TempDir() + "sample_source_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(MakeFolders(folder_).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Documents of 1 to 9 tokens; the ids count from `first_id`.
  std::string Write(const std::string& name, int documents, int first_id) {
    const std::string prefix = folder_ + "/" + name;
    MegatronWriter writer = MegatronWriter::Create(prefix, TokenType::kI32).value();
    for (int i = 0; i < documents; ++i) {
      std::vector<int32_t> tokens;
      for (int j = 0; j <= i % 9; ++j) tokens.push_back(first_id++);
      EXPECT_TRUE(writer.AddSequence(tokens).ok());
      writer.EndDocument();
    }
    EXPECT_TRUE(writer.Commit().ok());
    return prefix;
  }

  DataOptions Options(const std::string& prefix) {
    return {.sources = {{prefix}}, .sequence_length = 8, .samples = 40, .vocab_size = 1 << 20, .seed = 1234};
  }

  std::string folder_;
};

TEST_F(SampleSourceTest, OneEpochHoldsEveryTokenOnce) {
  DataOptions options = Options(Write("a", 90, 0));  // 450 tokens
  options.split = {1, 0, 0};
  options.samples = 0;
  const SampleSource source = SampleSource::Open(options).value();
  EXPECT_EQ(source.samples(), (450 - 1) / 8);
  std::map<int32_t, int> seen;
  for (int64_t k = 0; k < source.samples(); ++k) {
    std::vector<int32_t> tokens(9);
    ASSERT_TRUE(source.Read(k, tokens).ok());
    for (int i = 0; i < 8; ++i) ++seen[tokens[i]];
  }
  EXPECT_EQ(seen.size(), 8u * 56u);
  for (const auto& [token, count] : seen) EXPECT_EQ(count, 1) << token;
}

TEST_F(SampleSourceTest, SplitsShareNoDocument) {
  DataOptions options = Options(Write("a", 180, 0));
  options.split = {0.5, 0.3, 0.2};
  std::map<int32_t, int> part_of;
  for (const DataSplit part : {DataSplit::kTraining, DataSplit::kValidation, DataSplit::kTest}) {
    options.part = part;
    options.samples = 200;
    const SampleSource source = SampleSource::Open(options).value();
    ASSERT_GE(source.samples(), 200);
    for (int64_t k = 0; k < source.samples(); ++k) {
      std::vector<int32_t> tokens(9);
      ASSERT_TRUE(source.Read(k, tokens).ok());
      for (const int32_t token : tokens) {
        const auto [at, is_new] = part_of.try_emplace(token, static_cast<int>(part));
        EXPECT_EQ(at->second, static_cast<int>(part)) << token;
      }
    }
  }
}

TEST_F(SampleSourceTest, ReadingInAnyOrderFromSeveralThreadsIsTheSame) {
  const SampleSource source = SampleSource::Open(Options(Write("a", 90, 0))).value();
  std::vector<std::vector<int32_t>> forward(40, std::vector<int32_t>(9));
  std::vector<std::vector<int32_t>> parallel(40, std::vector<int32_t>(9));
  for (int64_t k = 0; k < 40; ++k) ASSERT_TRUE(source.Read(k, forward[k]).ok());
  SetSchedule({.threads = 4, .hostile_seed = 3});
  ParallelFor(40, [&](int64_t k) { SAMESTEP_CHECK(source.Read(k, parallel[k]).ok()); });
  SetSchedule({});
  EXPECT_EQ(forward, parallel);
}

TEST_F(SampleSourceTest, BlendDrawsByWeight) {
  DataOptions options = Options(Write("a", 90, 0));
  options.sources[0].weight = 3;
  options.sources.push_back({Write("b", 90, 10000), 1});
  options.samples = 400;
  const SampleSource source = SampleSource::Open(options).value();
  EXPECT_EQ(source.samples(), 400);
  int from_b = 0;
  for (int64_t k = 0; k < 400; ++k) {
    std::vector<int32_t> tokens(9);
    ASSERT_TRUE(source.Read(k, tokens).ok());
    from_b += tokens[0] >= 10000;
  }
  EXPECT_EQ(from_b, 100);
}

TEST_F(SampleSourceTest, DigestIsOfContentsNotOfNames) {
  const std::string a = Write("a", 90, 0);
  const std::string same = Write("same", 90, 0);
  const std::string other = Write("other", 90, 1);
  const auto digest = [&](const std::string& prefix) {
    return SampleSource::Open(Options(prefix))->Digest().hex();
  };
  EXPECT_EQ(digest(a), digest(same));
  EXPECT_NE(digest(a), digest(other));
  EXPECT_EQ(digest(a).size(), 32u);
}

TEST_F(SampleSourceTest, WrongTokenizerIsNamedWithItsPlace) {
  DataOptions options = Options(Write("a", 90, 100));
  options.vocab_size = 50;
  const SampleSource source = SampleSource::Open(options).value();
  std::vector<int32_t> tokens(9);
  const Status status = source.Read(0, tokens);
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_NE(status.message().find("another tokenizer"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(".bin: byte "), std::string::npos) << status.message();
}

TEST_F(SampleSourceTest, WhatCannotBeRightIsRefused) {
  const DataOptions good = Options(Write("a", 90, 0));
  const auto code = [&](const std::function<void(DataOptions&)>& change) {
    DataOptions options = good;
    change(options);
    return SampleSource::Open(options).status().code();
  };
  EXPECT_EQ(code([](DataOptions&) {}), StatusCode::kOk);
  EXPECT_EQ(code([](DataOptions& o) { o.sources.clear(); }), StatusCode::kUsage);
  EXPECT_EQ(code([](DataOptions& o) { o.seed = uint64_t{1} << 32; }), StatusCode::kUsage);
  EXPECT_EQ(code([](DataOptions& o) { o.sequence_length = 0; }), StatusCode::kUsage);
  EXPECT_EQ(code([](DataOptions& o) { o.vocab_size = 0; }), StatusCode::kUsage);
  EXPECT_EQ(code([](DataOptions& o) { o.split = {0, 0, 0}; }), StatusCode::kUsage);
  EXPECT_EQ(code([](DataOptions& o) { o.split = {1, -1, 1}; }), StatusCode::kUsage);
  EXPECT_EQ(code([](DataOptions& o) { o.sources[0].prefix += "x"; }), StatusCode::kNotFound);
  EXPECT_EQ(code([](DataOptions& o) { o.sequence_length = 4000; }), StatusCode::kInvalid);
  EXPECT_EQ(code([](DataOptions& o) { o.part = DataSplit::kTest; }), StatusCode::kInvalid);
  EXPECT_EQ(code([](DataOptions& o) { o.sources.push_back({o.sources[0].prefix, 0}); }), StatusCode::kUsage);
}

}  // namespace
}  // namespace samestep
