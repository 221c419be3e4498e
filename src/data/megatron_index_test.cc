#include "data/megatron_index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files.h"

namespace samestep {
namespace {

class MegatronIndexTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "megatron_index_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(MakeFolders(folder_).ok());
    prefix_ = folder_ + "/x_text_document";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Two documents, the second of two sequences, of which one is empty.
  void WriteSmall(TokenType type) {
    Result<MegatronWriter> writer = MegatronWriter::Create(prefix_, type);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{1, 2, 3}).ok());
    writer->EndDocument();
    ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{}).ok());
    ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{100, 5}).ok());
    writer->EndDocument();
    ASSERT_TRUE(writer->Commit().ok());
  }

  // Tests of damage write many files; WriteFileAtomically would wait for the disk each time.
  static void WriteWithoutSync(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  std::string folder_;
  std::string prefix_;
};

TEST_F(MegatronIndexTest, EveryTypeReadsBack) {
  for (const TokenType type :
       {TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kU16, TokenType::kI32, TokenType::kI64}) {
    WriteSmall(type);
    const Result<MegatronDataset> data = MegatronDataset::Open(prefix_);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_EQ(data->type(), type);
    EXPECT_EQ(data->sequences(), 3);
    EXPECT_EQ(data->documents(), 2);
    EXPECT_EQ(data->tokens(), 5);
    EXPECT_EQ(data->length(0), 3);
    EXPECT_EQ(data->length(1), 0);
    EXPECT_EQ(data->document_start(1), 1);
    EXPECT_EQ(data->document_start(2), 3);
    std::vector<int32_t> tokens(2);
    ASSERT_TRUE(data->Read(0, 1, tokens, 101).ok());
    EXPECT_EQ(tokens, (std::vector<int32_t>{2, 3}));
    ASSERT_TRUE(data->Read(2, 0, tokens, 101).ok());
    EXPECT_EQ(tokens, (std::vector<int32_t>{100, 5}));
    const Status wrong = data->Read(2, 0, tokens, 100);
    EXPECT_EQ(wrong.code(), StatusCode::kInvalid);
    EXPECT_NE(wrong.message().find(fmt::format("byte {}:", 3 * TokenBytes(type))), std::string::npos)
        << wrong.message();
  }
}

// The bytes that Megatron Core writes for this content (indexed_dataset.py: header, lengths, pointers,
// bounds).
TEST_F(MegatronIndexTest, WritesMegatronsBytes) {
  WriteSmall(TokenType::kU16);
  std::string expected("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x8", 18);
  const auto add = [&](auto value) { expected.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(uint64_t{3});
  add(uint64_t{3});
  for (const int32_t length : {3, 0, 2}) add(length);
  for (const int64_t offset : {0, 6, 6}) add(offset);
  for (const int64_t bound : {0, 1, 3}) add(bound);
  EXPECT_EQ(ReadFile(prefix_ + ".idx").value(), expected);
  EXPECT_EQ(ReadFile(prefix_ + ".bin").value(), std::string("\1\0\2\0\3\0\x64\0\5\0", 10));
}

TEST_F(MegatronIndexTest, TypeFollowsVocabulary) {
  EXPECT_EQ(TokenTypeFor(65499), TokenType::kU16);
  EXPECT_EQ(TokenTypeFor(65500), TokenType::kI32);
}

TEST_F(MegatronIndexTest, NegativeIdsAreRefused) {
  WriteSmall(TokenType::kI16);
  std::string bin = ReadFile(prefix_ + ".bin").value();
  bin[3] = '\xff';
  ASSERT_TRUE(WriteFileAtomically(prefix_ + ".bin", bin).ok());
  std::vector<int32_t> tokens(3);
  EXPECT_EQ(MegatronDataset::Open(prefix_)->Read(0, 0, tokens, 1 << 20).code(), StatusCode::kInvalid);
}

TEST_F(MegatronIndexTest, WriterThatIsDroppedLeavesNothing) {
  WriteSmall(TokenType::kU16);
  const std::string before = ReadFile(prefix_ + ".bin").value();
  {
    Result<MegatronWriter> writer = MegatronWriter::Create(prefix_, TokenType::kU8);
    ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{7}).ok());
  }
  EXPECT_EQ(ReadFile(prefix_ + ".bin").value(), before);
  EXPECT_EQ(ListFolder(folder_)->size(), 2u);
}

TEST_F(MegatronIndexTest, DigestSeesEveryChange) {
  WriteSmall(TokenType::kU16);
  const Digest first = MegatronDataset::Open(prefix_)->Digest();
  EXPECT_EQ(MegatronDataset::Open(prefix_)->Digest(), first);
  std::string bin = ReadFile(prefix_ + ".bin").value();
  bin[9] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(prefix_ + ".bin", bin).ok());
  EXPECT_NE(MegatronDataset::Open(prefix_)->Digest(), first);
  WriteSmall(TokenType::kI32);
  EXPECT_NE(MegatronDataset::Open(prefix_)->Digest(), first);
}

TEST_F(MegatronIndexTest, MissingFilesAreNamed) {
  EXPECT_EQ(MegatronDataset::Open(prefix_).status().code(), StatusCode::kNotFound);
  WriteSmall(TokenType::kU16);
  EXPECT_EQ(MegatronDataset::Open(prefix_ + ".bin").status().code(), StatusCode::kUsage);
  std::filesystem::remove(prefix_ + ".bin");
  const Status status = MegatronDataset::Open(prefix_).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find(".bin"), std::string::npos);
}

struct Hostile {
  const char* what;
  size_t at;
  std::string bytes;  // written over the file from `at` on
  const char* message;
};

std::string Little(uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i) result.push_back(static_cast<char>(value >> (8 * i)));
  return result;
}

TEST_F(MegatronIndexTest, DamagedIndexIsRefusedWithItsPlace) {
  WriteSmall(TokenType::kU16);
  const std::string good = ReadFile(prefix_ + ".idx").value();
  const uint64_t huge = ~uint64_t{0};
  const std::vector<Hostile> cases = {
      {"magic", 0, "X", "byte 0"},
      {"version", 9, Little(2, 8), "byte 9"},
      {"type 0", 17, Little(0, 1), "byte 17"},
      {"type 9", 17, Little(9, 1), "byte 17"},
      {"float type", 17, Little(7, 1), "floating-point"},
      {"other type", 17, Little(4, 1), "byte 34"},
      {"sequences 2^64-1", 18, Little(huge, 8), "byte 18"},
      {"sequences that wrap times 4", 18, Little(uint64_t{1} << 62, 8), "byte 18"},
      {"sequences that wrap times 12", 18, Little(huge / 12 + 2, 8), "byte 18"},
      {"one sequence more", 18, Little(4, 8), "byte 26"},
      {"one sequence less", 18, Little(2, 8), "more"},
      {"bounds 2^64-1", 26, Little(huge, 8), "byte 26"},
      {"bounds that wrap times 8", 26, Little((uint64_t{1} << 61) + 3, 8), "byte 26"},
      {"no bounds", 26, Little(0, 8), "byte 26"},
      {"one bound less", 26, Little(2, 8), "more"},
      {"negative length", 34, Little(0xFFFFFFFF, 4), "byte 34"},
      {"longer than the tokens", 42, Little(0x7FFFFFFF, 4), "byte 42"},
      {"one token less", 42, Little(1, 4), "not a pair"},
      {"negative offset", 46, Little(huge, 8), "byte 46"},
      {"overlap", 54, Little(4, 8), "byte 54"},
      {"gap", 62, Little(8, 8), "byte 62"},
      {"first bound", 70, Little(1, 8), "byte 70"},
      {"bounds that fall", 78, Little(4, 8), "byte 78"},
      {"last bound", 86, Little(2, 8), "byte 86"},
      {"negative bound", 86, Little(huge, 8), "byte 86"},
  };
  for (const Hostile& c : cases) {
    SCOPED_TRACE(c.what);
    std::string bad = good;
    bad.replace(c.at, c.bytes.size(), c.bytes);
    ASSERT_EQ(bad.size(), good.size());
    WriteWithoutSync(prefix_ + ".idx", bad);
    const Result<MegatronDataset> data = MegatronDataset::Open(prefix_);
    ASSERT_FALSE(data.ok());
    EXPECT_EQ(data.status().code(), StatusCode::kInvalid);
    EXPECT_NE(data.status().message().find(c.message), std::string::npos) << data.status().message();
  }
}

TEST_F(MegatronIndexTest, EveryTruncationIsRefused) {
  WriteSmall(TokenType::kU16);
  const std::string index = ReadFile(prefix_ + ".idx").value();
  const std::string bin = ReadFile(prefix_ + ".bin").value();
  for (size_t size = 0; size < index.size(); ++size) {
    WriteWithoutSync(prefix_ + ".idx", index.substr(0, size));
    EXPECT_EQ(MegatronDataset::Open(prefix_).status().code(), StatusCode::kInvalid) << size;
  }
  WriteWithoutSync(prefix_ + ".idx", index + "x");
  EXPECT_FALSE(MegatronDataset::Open(prefix_).ok());
  WriteWithoutSync(prefix_ + ".idx", index + "xyz");
  EXPECT_NE(MegatronDataset::Open(prefix_).status().message().find("multimodal"), std::string::npos);
  WriteWithoutSync(prefix_ + ".idx", index);
  for (size_t size = 0; size < bin.size(); ++size) {
    WriteWithoutSync(prefix_ + ".bin", bin.substr(0, size));
    EXPECT_EQ(MegatronDataset::Open(prefix_).status().code(), StatusCode::kInvalid) << size;
  }
  WriteWithoutSync(prefix_ + ".bin", bin + "x");
  EXPECT_FALSE(MegatronDataset::Open(prefix_).ok());
  WriteWithoutSync(prefix_ + ".bin", bin);
  EXPECT_TRUE(MegatronDataset::Open(prefix_).ok());
}

// Any byte changed: refused, or a data set in which every sequence can be read.
TEST_F(MegatronIndexTest, AnyChangedByteIsHarmless) {
  WriteSmall(TokenType::kU16);
  const std::string good = ReadFile(prefix_ + ".idx").value();
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 1, 2, 4, 127, 128, 255}) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      WriteWithoutSync(prefix_ + ".idx", bad);
      const Result<MegatronDataset> data = MegatronDataset::Open(prefix_);
      if (!data.ok()) continue;
      for (int64_t i = 0; i < data->sequences(); ++i) {
        std::vector<int32_t> tokens(static_cast<size_t>(data->length(i)));
        (void)data->Read(i, 0, tokens, 1 << 20);
      }
    }
  }
}

// Whatever fails in Commit: the pair of before is there, whole, and nothing else is.
TEST_F(MegatronIndexTest, AFailedCommitLeavesTheEarlierPair) {
  WriteSmall(TokenType::kU16);
  const std::string index = ReadFile(prefix_ + ".idx").value();
  const std::string bin = ReadFile(prefix_ + ".bin").value();
  for (const char* lost : {".bin.partial", ".idx.partial"}) {
    SCOPED_TRACE(lost);
    {
      Result<MegatronWriter> writer = MegatronWriter::Create(prefix_, TokenType::kU8);
      ASSERT_TRUE(writer.ok());
      ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{7}).ok());
      writer->EndDocument();
      std::filesystem::remove(prefix_ + lost);
      if (lost == std::string(".idx.partial")) std::filesystem::create_directory(prefix_ + lost);
      EXPECT_FALSE(writer->Commit().ok());
    }
    std::filesystem::remove(prefix_ + lost);
    EXPECT_EQ(ReadFile(prefix_ + ".idx").value(), index);
    EXPECT_EQ(ReadFile(prefix_ + ".bin").value(), bin);
    EXPECT_EQ(ListFolder(folder_).value(),
              (std::vector<std::string>{"x_text_document.bin", "x_text_document.idx"}));
  }
  WriteSmall(TokenType::kU8);
  EXPECT_EQ(MegatronDataset::Open(prefix_)->type(), TokenType::kU8);
  EXPECT_EQ(ListFolder(folder_)->size(), 2u);
}

TEST_F(MegatronIndexTest, EmptyDataSet) {
  Result<MegatronWriter> writer = MegatronWriter::Create(prefix_, TokenType::kU16);
  ASSERT_TRUE(writer->Commit().ok());
  const Result<MegatronDataset> data = MegatronDataset::Open(prefix_);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->tokens(), 0);
  EXPECT_EQ(data->documents(), 0);
}

}  // namespace
}  // namespace samestep
