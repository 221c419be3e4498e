#include "train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace samestep {
namespace {

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "metrics_test_" + std::to_string(::getpid());
    ASSERT_TRUE(MakeFolders(folder_).ok());
    path_ = JoinPath(folder_, "metrics.jsonl");
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(folder_).ok()); }
  std::string Content() const { return ReadFile(path_).value(); }
  void WriteSteps(int64_t first, int64_t last, int64_t resume_step) {
    Result<MetricsWriter> writer = MetricsWriter::Open(path_, resume_step);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (int64_t step = first; step <= last; ++step)
      ASSERT_TRUE(writer->Write(MetricsLine(step).Real("loss", 1.0 / static_cast<double>(step))).ok());
    ASSERT_TRUE(writer->Flush().ok());
  }
  std::string folder_, path_;
};

TEST_F(MetricsTest, Line) {
  EXPECT_EQ(MetricsLine(1).Real("loss", 2.5).Real("lr", 3e-4f).Integer("n", -7).Text("s", "a\"b\n").text(),
            "{\"step\": 1, \"loss\": 2.5, \"loss_hex\": \"4004000000000000\", \"lr\": 0.0003, \"lr_hex\": "
            "\"399d4952\", \"n\": -7, \"s\": \"a\\\"b\\n\"}\n");
}

TEST_F(MetricsTest, EveryValueReadsBackExactly) {
  for (const double value : {0.1, -0.0, 1e-310, 5e-324, 1.7976931348623157e308, 1.0 / 3, 2.0, 1e22, 1e15}) {
    const nlohmann::json line = nlohmann::json::parse(MetricsLine(3).Real("x", value).text());
    EXPECT_EQ(std::bit_cast<uint64_t>(line["x"].get<double>()), std::bit_cast<uint64_t>(value)) << line;
    EXPECT_EQ(std::stoull(line["x_hex"].get<std::string>(), nullptr, 16), std::bit_cast<uint64_t>(value))
        << line;
  }
  for (const double value : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const nlohmann::json line = nlohmann::json::parse(MetricsLine(3).Real("x", value).text());
    EXPECT_TRUE(line["x"].is_null());
    EXPECT_EQ(std::stoull(line["x_hex"].get<std::string>(), nullptr, 16), std::bit_cast<uint64_t>(value));
  }
}

TEST_F(MetricsTest, ResumedFileIsTheOneOfARunThatWasNeverStopped) {
  WriteSteps(1, 300, 0);
  const std::string straight = Content();
  ASSERT_TRUE(RemoveTree(path_).ok());
  WriteSteps(1, 200, 0);
  WriteSteps(151, 300, 150);
  EXPECT_EQ(Content(), straight);
  WriteSteps(1, 10, 0);  // begun anew
  EXPECT_EQ(Content(), straight.substr(0, Content().size()));
  EXPECT_EQ(std::count(straight.begin(), straight.end(), '\n'), 300);
}

TEST_F(MetricsTest, CrashAtEachByte) {
  WriteSteps(1, 3, 0);
  const std::string whole = Content();
  for (size_t size = 0; size <= whole.size(); size += 3) {
    std::ofstream(path_, std::ios::binary) << whole.substr(0, size);
    WriteSteps(1, 0, 3);
    const size_t end = whole.substr(0, size).rfind('\n');
    ASSERT_EQ(Content(), whole.substr(0, end == std::string::npos ? 0 : end + 1));
  }
}

TEST_F(MetricsTest, RefusesAForeignFileAndLeavesIt) {
  for (const char* foreign :
       {"{\"step\": 1}\nhello\n", "[1]\n", "{}\n", "{\"step\": 1.5}\n", "\n", "\xff\xfe\n"}) {
    ASSERT_TRUE(WriteFileAtomically(path_, foreign).ok());
    const Result<MetricsWriter> writer = MetricsWriter::Open(path_, 10);
    ASSERT_FALSE(writer.ok());
    EXPECT_EQ(writer.status().code(), StatusCode::kInvalid);
    EXPECT_THAT(writer.status().message(), testing::HasSubstr("not a line of metrics"));
    EXPECT_EQ(Content(), foreign);
  }
}

// Writing fails: the caller learns of it (a full disk, here a device that is always full).
TEST_F(MetricsTest, FullDisk) {
  if (!FileExists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  Result<AppendFile> file = AppendFile::Open("/dev/full");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append("x").ok());
  const Status status = file->Flush();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), testing::HasSubstr("free some space"));
}

TEST_F(MetricsTest, AFullBufferIsWritten) {
  Result<MetricsWriter> writer = MetricsWriter::Open(path_, 0);
  ASSERT_TRUE(writer.ok());
  const std::string long_text(1000, 'x');
  for (int64_t step = 1; step <= 100; ++step)
    ASSERT_TRUE(writer->Write(MetricsLine(step).Text("t", long_text)).ok());
  EXPECT_GT(Content().size(), 60000u);
}

}  // namespace
}  // namespace samestep
