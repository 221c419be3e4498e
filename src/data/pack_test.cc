#include "data/pack.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/parallel_for.h"
#include "data/tokenizer.h"

namespace samestep {
namespace {

class PackTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "pack_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(MakeFolders(folder_).ok());
  }
  void TearDown() override {
    SetSchedule({});
    std::filesystem::remove_all(folder_);
  }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  PackOptions Options(const std::string& input) { return {.inputs = {input}, .output = folder_ + "/out"}; }

  // The documents as text, the end of a document as '$', sequences of one document joined by '+'.
  static std::vector<std::string> Documents(const std::string& prefix) {
    const MegatronDataset data = MegatronDataset::Open(prefix).value();
    std::vector<std::string> result;
    for (int64_t d = 0; d < data.documents(); ++d) {
      std::string text;
      for (int64_t s = data.document_start(d); s < data.document_start(d + 1); ++s) {
        if (s > data.document_start(d)) text += '+';
        std::vector<int32_t> tokens(static_cast<size_t>(data.length(s)));
        EXPECT_TRUE(data.Read(s, 0, tokens, 257).ok());
        for (const int32_t token : tokens) text += token == 256 ? '$' : static_cast<char>(token);
      }
      result.push_back(text);
    }
    return result;
  }
  std::vector<std::string> Pack(const PackOptions& options) {
    const Result<PackReport> report = PackFiles(options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? Documents(report->prefix) : std::vector<std::string>{};
  }

  std::string folder_;
};

using Texts = std::vector<std::string>;

TEST_F(PackTest, DocumentsByRule) {
  PackOptions options = Options(File("a.txt", "\none\ntwo\n\n \r\nthree\n"));
  EXPECT_EQ(Pack(options), (Texts{"\none\ntwo\n\n \r\nthree\n$"}));
  options.documents = DocumentRule::kLines;
  EXPECT_EQ(Pack(options), (Texts{"one$", "two$", "three$"}));
  options.documents = DocumentRule::kBlankLines;
  EXPECT_EQ(Pack(options), (Texts{"one\ntwo\n$", "three\n$"}));
  options.append_eod = false;
  EXPECT_EQ(Pack(options), (Texts{"one\ntwo\n", "three\n"}));
}

TEST_F(PackTest, JsonLines) {
  PackOptions options =
      Options(File("a.jsonl", "{\"text\":\"a\\n\\u00e9\",\"x\":1}\n\n{\"text\":\"\"}\n{\"text\":\"b\"}"));
  EXPECT_EQ(Pack(options), (Texts{"a\n\u00e9$", "", "b$"}));
  EXPECT_EQ(PackFiles(options)->empty_documents, 1);
  options.json_key = "x";
  EXPECT_EQ(PackFiles(options).status().code(), StatusCode::kInvalid);
}

TEST_F(PackTest, SeveralFilesFollowEachOther) {
  PackOptions options = Options(File("a.txt", "a"));
  options.inputs.push_back(File("b.jsonl", "{\"text\":\"b\"}\n{\"text\":\"c\"}\n"));
  options.inputs.push_back(File("c.txt", "d"));
  EXPECT_EQ(Pack(options), (Texts{"a$", "b$", "c$", "d$"}));
}

TEST_F(PackTest, NamedAndTypedAsMegatron) {
  const PackReport report = PackFiles(Options(File("a.txt", "abc"))).value();
  EXPECT_EQ(report.prefix, folder_ + "/out_text_document");
  EXPECT_EQ(report.type, TokenType::kU16);
  EXPECT_EQ(report.tokens, 4);
  EXPECT_EQ(report.documents, 1);
  EXPECT_EQ(report.text_bytes, 3);
  EXPECT_TRUE(FileExists(report.prefix + ".bin"));
}

TEST_F(PackTest, SameBytesForAnyThreadsAndSchedule) {
  std::string lines;
  for (int i = 0; i < 5000; ++i) {
    lines += fmt::format("{{\"text\":\"{} In the beginning {} God's heaven\"}}\n", std::string(i % 37, 'x'),
                         i * i);
  }
  PackOptions options = Options(File("a.jsonl", lines));
  options.tokenizer = SAMESTEP_TEST_DATA "/tokenizers/bytes.json";
  options.append_eod = false;
  std::string bin, idx;
  for (const Schedule& schedule : {Schedule{.threads = 1}, Schedule{.threads = 2}, Schedule{.threads = 7},
                                   Schedule{.threads = 3, .hostile_seed = 5}}) {
    SetSchedule(schedule);
    const PackReport report = PackFiles(options).value();
    const std::string new_bin = ReadFile(report.prefix + ".bin").value();
    const std::string new_idx = ReadFile(report.prefix + ".idx").value();
    if (!bin.empty()) {
      EXPECT_EQ(new_bin, bin);
      EXPECT_EQ(new_idx, idx);
    }
    bin = new_bin;
    idx = new_idx;
  }
}

// Documents that cross the reader's buffer, and more text than one batch holds.
TEST_F(PackTest, LargeFilesInBatches) {
  std::string text;
  for (int i = 0; text.size() < (size_t{34} << 20); ++i)
    text += std::string(1 + i % 3000, 'a' + i % 26) + "\n";
  PackOptions options = Options(File("a.txt", text));
  options.documents = DocumentRule::kLines;
  options.append_eod = false;
  int64_t calls = 0;
  const PackReport report = PackFiles(options, [&](int64_t done, int64_t total) {
                              EXPECT_LE(done, total);
                              ++calls;
                            }).value();
  EXPECT_GE(calls, 2);
  std::string without_ends;
  for (const char c : text) {
    if (c != '\n') without_ends += c;
  }
  const std::string bin = ReadFile(report.prefix + ".bin").value();
  ASSERT_EQ(bin.size(), 2 * without_ends.size());
  for (size_t i = 0; i < without_ends.size(); ++i) ASSERT_EQ(bin[2 * i], without_ends[i]) << i;
}

TEST_F(PackTest, MalformedLinesAreNamedAndNothingIsLeft) {
  for (const char* line : {"{\"text\":\"b\"", "b", "[1]", "{\"txt\":\"b\"}", "{\"text\":5}",
                           "{\"text\":\"\\ud800\"}", "{\"text\":\"\xff\"}", "{\"text\":\"a\"} x"}) {
    const Status status =
        PackFiles(Options(File("a.jsonl", fmt::format("{{\"text\":\"a\"}}\n{}\n", line)))).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalid) << line;
    EXPECT_NE(status.message().find("a.jsonl:2: "), std::string::npos) << status.message();
    EXPECT_EQ(ListFolder(folder_).value(), Texts{"a.jsonl"});
  }
}

TEST_F(PackTest, AnEarlierDataSetSurvivesAFailure) {
  ASSERT_EQ(Pack(Options(File("a.txt", "old"))), Texts{"old$"});
  EXPECT_FALSE(PackFiles(Options(File("b.jsonl", "oops"))).ok());
  EXPECT_EQ(Documents(folder_ + "/out_text_document"), Texts{"old$"});
}

TEST_F(PackTest, WhatCannotBeRightIsRefused) {
  const std::string text = File("a.txt", "a");
  EXPECT_EQ(PackFiles({.output = "x"}).status().code(), StatusCode::kUsage);
  EXPECT_EQ(PackFiles({.inputs = {text}}).status().code(), StatusCode::kUsage);
  EXPECT_EQ(PackFiles(Options(folder_)).status().code(), StatusCode::kUsage);
  EXPECT_EQ(PackFiles(Options(folder_ + "/none.txt")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(PackFiles(Options(File("e.txt", ""))).status().code(), StatusCode::kInvalid);
  PackOptions options = Options(text);
  options.output = folder_ + "/no/such/folder/out";
  EXPECT_FALSE(PackFiles(options).ok());
  options = Options(text);
  options.tokenizer = SAMESTEP_TEST_DATA "/tokenizers/bytes.json";  // has no end of document
  const Status status = PackFiles(options).status();
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_NE(status.message().find("--eod"), std::string::npos);
  EXPECT_EQ(ParseDocumentRule("words").status().code(), StatusCode::kUsage);
  options = Options(File("bad.txt", "ab\xff"));
  options.tokenizer = SAMESTEP_TEST_DATA "/tokenizers/chars.json";
  EXPECT_NE(PackFiles(options).status().message().find("bad.txt:1: byte 2"), std::string::npos);
}

}  // namespace
}  // namespace samestep
