#include "train/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"

namespace samestep {
namespace {

constexpr double kTime = 1700000000.0;
// Made by another program (TensorBoard's own writer).
constexpr const char* kVersionRecord =
    "1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d";
constexpr const char* kLossRecord =
    "1a00000000000000129bd82d0900000040fc54d94110012a0d0a0b0a046c6f737315000020408c508023";

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

// Without the fsync of WriteFileAtomically, which takes its time.
void Overwrite(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

class TensorboardTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "tensorboard_test_" + std::to_string(::getpid());
    ASSERT_TRUE(MakeFolders(folder_).ok());
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(folder_).ok()); }

  // The only file.
  std::string Path() const {
    const std::vector<std::string> names = ListFolder(folder_).value();
    EXPECT_EQ(names.size(), 1u);
    return JoinPath(folder_, names.at(0));
  }
  std::string Content() const { return ReadFile(Path()).value(); }
  void WriteSteps(int64_t first, int64_t last, int64_t resume_step) {
    Result<EventWriter> writer = EventWriter::Open(folder_, FixedClock(kTime), resume_step);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (int64_t step = first; step <= last; ++step) {
      ASSERT_TRUE(writer->Scalar(step, "loss", 1.0 / static_cast<double>(step)).ok());
      ASSERT_TRUE(writer->Scalar(step, "norm", 3.0).ok());
    }
    ASSERT_TRUE(writer->Flush().ok());
  }
  std::string folder_;
};

TEST_F(TensorboardTest, Checksum) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);  // the check value that defines CRC-32C
  EXPECT_EQ(Crc32c(""), 0u);
  const std::string record = EventRecord(
      "\x1a\x11"
      "CRC test, one two");
  EXPECT_EQ(Hex(record.substr(record.size() - 4)), "8ad09457");
}

TEST_F(TensorboardTest, GoldenBytes) {
  EXPECT_EQ(Hex(EventRecord(VersionEvent(kTime))), kVersionRecord);
  EXPECT_EQ(Hex(EventRecord(ScalarEvent(kTime, 1, "loss", 2.5f))), kLossRecord);
}

TEST_F(TensorboardTest, FileHoldsTheseRecords) {
  Result<EventWriter> writer = EventWriter::Open(folder_, FixedClock(kTime), 0);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Scalar(1, "loss", 2.5).ok());
  ASSERT_TRUE(writer->Flush().ok());
  EXPECT_EQ(ListFolder(folder_).value(), std::vector<std::string>{"events.out.tfevents.1700000000.samestep"});
  EXPECT_EQ(Hex(Content()), std::string(kVersionRecord) + kLossRecord);
}

TEST_F(TensorboardTest, ResumedFileIsTheOneOfARunThatWasNeverStopped) {
  WriteSteps(1, 300, 0);
  const std::string straight = Content();
  ASSERT_TRUE(RemoveTree(Path()).ok());
  WriteSteps(1, 200, 0);
  WriteSteps(151, 300, 150);
  EXPECT_EQ(Content(), straight);
}

// Wherever the file was cut or damaged, what came before stays and the run continues.
TEST_F(TensorboardTest, CrashAtEachByte) {
  WriteSteps(1, 1, 0);
  const std::string whole = Content();
  const size_t record = EventRecord(ScalarEvent(kTime, 1, "loss", 1)).size();
  const size_t version = EventRecord(VersionEvent(kTime)).size();
  for (size_t size = 0; size <= whole.size(); size += 3) {
    Overwrite(Path(), whole.substr(0, size));
    WriteSteps(1, 0, 4);
    const size_t kept = size < version ? version : version + (size - version) / record * record;
    ASSERT_EQ(Content(), whole.substr(0, kept)) << size;
  }
  for (size_t byte = 0; byte < whole.size(); byte += 3) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x40);
    Overwrite(Path(), damaged);
    WriteSteps(1, 0, 4);
    const size_t kept = byte < version ? version : version + (byte - version) / record * record;
    ASSERT_EQ(Content(), whole.substr(0, kept)) << byte;
  }
}

TEST_F(TensorboardTest, UnwritableFolder) {
  EXPECT_FALSE(EventWriter::Open("/nonexistent", SystemClock(), 0).ok());
}

}  // namespace
}  // namespace samestep
