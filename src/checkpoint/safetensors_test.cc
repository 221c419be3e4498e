#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

namespace samestep {
namespace {

using testing::HasSubstr;

std::span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string Length(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string File(const std::string& header, const std::string& data) {
  return Length(header.size()) + header + data;
}

std::string Refusal(const std::string& file) {
  const Result<SafetensorsContent> content = ParseSafetensors(Bytes(file), "x.safetensors");
  if (content.ok()) return "accepted";
  EXPECT_EQ(content.status().code(), StatusCode::kInvalid);
  return content.status().message();
}

std::string Tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   uint64_t begin, uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin,
                     end);
}

class SafetensorsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "safetensors_test_" + std::to_string(::getpid());
    ASSERT_TRUE(MakeFolders(folder_).ok());
  }
  void TearDown() override { EXPECT_TRUE(RemoveTree(folder_).ok()); }
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  std::string folder_;
};

// The bytes by hand: types descending, then names; header padded to a multiple of 8; metadata sorted.
TEST_F(SafetensorsFileTest, WritesTheseBytes) {
  const std::vector<SafetensorsOutput> out = {
      SafetensorsBytes("b", SafetensorsType::kU8, {3}, Bytes("xyz")),
      SafetensorsBytes("z", SafetensorsType::kF32, {1, 2}, Bytes("01234567")),
      SafetensorsBytes("a", SafetensorsType::kF32, {}, Bytes("abcd")),
      SafetensorsBytes("empty", SafetensorsType::kI64, {0, 5}, {}),
  };
  ASSERT_TRUE(WriteSafetensors(Path("a"), out, {{"z", "1"}, {"format", "pt"}}).ok());
  std::string header =
      R"({"__metadata__":{"format":"pt","z":"1"},"empty":{"dtype":"I64","shape":[0,5],"data_offsets":[0,0]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"z":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(ReadFile(Path("a")).value(), File(header, "abcd01234567xyz"));

  std::vector<SafetensorsOutput> reversed(out.rbegin(), out.rend());
  ASSERT_TRUE(WriteSafetensors(Path("b"), reversed, {{"format", "pt"}, {"z", "1"}}).ok());
  EXPECT_EQ(ReadFile(Path("b")).value(), ReadFile(Path("a")).value());
}

TEST_F(SafetensorsFileTest, RoundTrip) {
  std::vector<SafetensorsOutput> out;
  std::vector<std::string> contents;
  for (int i = 0; i < 300; ++i)
    contents.push_back(std::string(static_cast<size_t>(i) * 8, static_cast<char>(i)));
  for (int i = 0; i < 300; ++i) {
    const auto type = static_cast<SafetensorsType>(i % 22);
    const uint64_t elements =
        contents[static_cast<size_t>(i)].size() * 8 / static_cast<uint64_t>(SafetensorsTypeBits(type));
    const bool whole = elements * static_cast<uint64_t>(SafetensorsTypeBits(type)) ==
                       contents[static_cast<size_t>(i)].size() * 8;
    if (whole)
      out.push_back(SafetensorsBytes(fmt::format("t\"\n\u00fc{}", i), type, {1, elements},
                                     Bytes(contents[static_cast<size_t>(i)])));
  }
  ASSERT_GT(out.size(), 280u);
  ASSERT_TRUE(WriteSafetensors(Path("a"), out).ok());
  const Result<SafetensorsFile> file = SafetensorsFile::Open(Path("a"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->metadata().empty());
  ASSERT_EQ(file->tensors().size(), out.size());
  for (const SafetensorsOutput& expected : out) {
    const SafetensorsTensor* tensor = file->Find(expected.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type, expected.type);
    EXPECT_EQ(tensor->shape, expected.shape);
    Status same = expected.produce([&](std::span<const std::byte> bytes) -> Status {
      const bool equal =
          bytes.size() == tensor->bytes.size() &&
          (bytes.empty() || std::memcmp(bytes.data(), tensor->bytes.data(), bytes.size()) == 0);
      return equal ? Status() : InvalidError("differs");
    });
    EXPECT_TRUE(same.ok()) << tensor->name;
  }
  EXPECT_EQ(file->Find("t"), nullptr);
  EXPECT_EQ(file->Find("~"), nullptr);
}

// A file of the format's own package (tests/python/make_safetensors_vector.py) reads, and is what we write.
TEST_F(SafetensorsFileTest, SameBytesAsTheReferenceWriter) {
  const std::string reference = SAMESTEP_TEST_DATA "/reference.safetensors";
  const Result<SafetensorsFile> file = SafetensorsFile::Open(reference);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 20u);
  std::vector<SafetensorsOutput> out;
  for (const SafetensorsTensor& tensor : file->tensors())
    out.push_back(SafetensorsBytes(tensor.name, tensor.type, tensor.shape, tensor.bytes));
  ASSERT_TRUE(WriteSafetensors(Path("a"), out, file->metadata()).ok());
  EXPECT_EQ(ReadFile(Path("a")).value(), ReadFile(reference).value());
}

TEST_F(SafetensorsFileTest, PiecesAndFailures) {
  const SafetensorsOutput pieces = {"w", SafetensorsType::kU8, {6}, [](const ByteSink& sink) -> Status {
                                      for (const char* piece : {"ab", "", "cdef"})
                                        SAMESTEP_RETURN_IF_ERROR(sink(Bytes(piece)));
                                      return {};
                                    }};
  ASSERT_TRUE(WriteSafetensors(Path("a"), {pieces}).ok());
  const std::string before = ReadFile(Path("a")).value();
  EXPECT_EQ(before.substr(before.size() - 6), "abcdef");
  // A producer that fails leaves what stood there before, and nothing beside it.
  const SafetensorsOutput fails = {
      "w", SafetensorsType::kU8, {6}, [](const ByteSink&) -> Status { return IoError("no more"); }};
  EXPECT_EQ(WriteSafetensors(Path("a"), {fails}).message(), "no more");
  EXPECT_EQ(ReadFile(Path("a")).value(), before);
  EXPECT_EQ(ListFolder(folder_).value(), std::vector<std::string>{"a"});
  EXPECT_EQ(WriteSafetensors("/nonexistent/a", {pieces}).code(), StatusCode::kNotFound);
}

TEST_F(SafetensorsFileTest, BrokenPromisesStopTheProgram) {
  const SafetensorsOutput w = SafetensorsBytes("w", SafetensorsType::kU8, {3}, Bytes("xyz"));
  EXPECT_DEATH((void)WriteSafetensors(Path("a"), {w, w}), "internal error");
  const SafetensorsOutput shorter = SafetensorsBytes("w", SafetensorsType::kU8, {4}, Bytes("xyz"));
  EXPECT_DEATH((void)WriteSafetensors(Path("a"), {shorter}), "3 against 4");
  const SafetensorsOutput half = SafetensorsBytes("w", SafetensorsType::kF4, {3}, Bytes("xy"));
  EXPECT_DEATH((void)WriteSafetensors(Path("a"), {half}), "internal error");
}

TEST_F(SafetensorsFileTest, FilesThatCannotBeOpened) {
  EXPECT_EQ(SafetensorsFile::Open(Path("missing")).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(SafetensorsFile::Open(folder_).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("empty"), "").ok());
  EXPECT_EQ(SafetensorsFile::Open(Path("empty")).status().message(),
            Path("empty") + ": 0 bytes; a safetensors file begins with an 8-byte length");
}

TEST(SafetensorsTest, AcceptsWhatTheReferenceAccepts) {
  const std::string w = Tensor("w", "F32", "[2]", 0, 8);
  EXPECT_EQ(Refusal(File("{}", "")), "accepted");
  EXPECT_EQ(Refusal(File("{" + w + "}", "01234567")), "accepted");
  EXPECT_EQ(Refusal(File("  \n{" + w + "}   ", "01234567")), "accepted");  // padding on either side
  EXPECT_EQ(Refusal(File("{" + Tensor("w", "F32", "[]", 0, 4) + "}", "0123")), "accepted");
  EXPECT_EQ(Refusal(File("{" + Tensor("w", "F32", "[0,7]", 0, 0) + "}", "")), "accepted");
  EXPECT_EQ(Refusal(File("{" + Tensor("w", "F4", "[3,2]", 0, 3) + "}", "012")), "accepted");
  EXPECT_EQ(Refusal(File("{" + Tensor("w", "F6_E2M3", "[4]", 0, 3) + "}", "012")), "accepted");
  // Two empty tensors may lie between others; order in the header is free.
  EXPECT_EQ(Refusal(File("{" + Tensor("b", "U8", "[1]", 1, 2) + "," + Tensor("e", "U8", "[0]", 1, 1) + "," +
                             Tensor("f", "U8", "[0]", 1, 1) + "," + Tensor("a", "U8", "[1]", 0, 1) + "}",
                         "01")),
            "accepted");
  const std::string metadata = File(R"({"__metadata__":{"a":"b"},)" + w + "}", "01234567");
  const Result<SafetensorsContent> content = ParseSafetensors(Bytes(metadata), "x");
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(content->metadata.at("a"), "b");
  EXPECT_EQ(content->tensors[0].bytes.data(), Bytes(metadata).data() + metadata.size() - 8);
}

TEST(SafetensorsTest, RefusesHostileLengths) {
  EXPECT_THAT(Refusal(""), HasSubstr("0 bytes"));
  EXPECT_THAT(Refusal("1234567"), HasSubstr("7 bytes"));
  EXPECT_THAT(Refusal(Length(100'000'001) + "{}"), HasSubstr("at most 100000000"));
  EXPECT_THAT(Refusal(Length(~uint64_t{0}) + "{}"), HasSubstr("at most 100000000"));
  EXPECT_THAT(Refusal(Length(~uint64_t{0} - 7) + "{}"), HasSubstr("at most 100000000"));  // 8 + n wraps to 0
  EXPECT_THAT(Refusal(Length(3) + "{}"), HasSubstr("truncated: a header of 3 bytes in a file of 10"));
  EXPECT_THAT(Refusal(Length(0)), HasSubstr("does not begin with {"));
  EXPECT_THAT(Refusal(Length(0) + "{}"), HasSubstr("does not begin with {"));
}

TEST(SafetensorsTest, RefusesHostileHeaders) {
  const std::string w = Tensor("w", "F32", "[2]", 0, 8);
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"[]", "does not begin with {"},
      {"\xEF\xBB\xBF{}", "does not begin with {"},
      {"{", "not valid JSON at byte"},
      {"{}x", "not valid JSON at byte"},
      {"{} {}", "not valid JSON at byte"},
      {std::string("{}\0garbage", 10), "zero byte, at byte 10 of the file"},
      {"{\"\xff\":3}", "not valid JSON"},
      {"{/**/}", "not valid JSON"},
      {"{" + w + "," + w + "}", "the name \"w\" occurs twice"},
      {R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "\"w\": dtype occurs twice"},
      {R"({"w":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", "shape occurs twice"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8]}})",
       "data_offsets occurs twice"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "the metadata key \"a\" occurs twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "the name \"__metadata__\" occurs twice"},
      {R"({"__metadata__":{"a":1}})", "\"__metadata__\": \"a\" is the integer 1"},
      {R"({"__metadata__":{"a":{}}})", "is a nested object"},
      {R"({"__metadata__":{"a":["b"]}})", "is a list"},
      {R"({"__metadata__":"a"})", "\"__metadata__\" is text; expected an object"},
      {R"({"w":3})", "\"w\" is the integer 3; expected an object"},
      {R"({"w":null})", "\"w\" is null; expected an object"},
      {R"({"w":{}})", "\"w\": dtype is missing"},
      {R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", "shape is missing"},
      {R"({"w":{"dtype":"F32","shape":[2]}})", "data_offsets is missing"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "unknown field \"x\""},
      {R"({"w":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "unknown dtype \"F33\""},
      {R"({"w":{"dtype":"F33","shape":[2],"data_offsets":[99,107]}})", "unknown dtype \"F33\""},
      {R"({"w":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})", "is a list"},
      {R"({"w":{"dtype":"F32","shape":"2","data_offsets":[0,8]}})", "\"shape\" is text"},
      {R"({"w":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", "\"shape\" is the integer 2"},
      {R"({"w":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", "is a list"},
      {R"({"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "the negative integer -2"},
      {R"({"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "the number \"2.0\""},
      {R"({"w":{"dtype":"F32","shape":[true],"data_offsets":[0,8]}})", "is a truth value"},
      {R"({"w":{"dtype":"F32","shape":[{}],"data_offsets":[0,8]}})", "is a nested object"},
      {R"({"w":{"dtype":"F32","shape":[281474976710656],"data_offsets":[0,8]}})", "is above 2^48 - 1"},
      {R"({"w":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})",
       "not a 48-bit integer"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "data_offsets has 1 entries"},
      {R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", "data_offsets has 3 entries"},
  };
  for (const auto& [header, message] : headers)
    EXPECT_THAT(Refusal(File(header, "01234567")), HasSubstr(message)) << header;
}

TEST(SafetensorsTest, RefusesHostileOffsets) {
  const auto file = [](const std::string& tensors, size_t data) {
    return Refusal(File("{" + tensors + "}", std::string(data, 'x')));
  };
  EXPECT_THAT(file(Tensor("w", "F32", "[2]", 4, 12), 12),
              HasSubstr("begins at byte 4 of the data; expected 0"));
  EXPECT_THAT(file(Tensor("w", "F32", "[2]", 0, 8), 9),
              HasSubstr("9 bytes of data, of which the tensors account for 8"));
  EXPECT_THAT(file(Tensor("w", "F32", "[2]", 0, 8), 7), HasSubstr("truncated: tensor \"w\" ends at byte 8"));
  EXPECT_THAT(file(Tensor("w", "F32", "[3]", 0, 8), 8), HasSubstr("has 8 bytes; shape [3] of F32 needs 12"));
  EXPECT_THAT(file(Tensor("w", "F32", "[2]", 8, 0), 8), HasSubstr("begins at byte 8"));
  EXPECT_THAT(file(Tensor("a", "F32", "[1]", 0, 4) + "," + Tensor("b", "F32", "[0]", 4, 0), 4),
              HasSubstr("ends at byte 0, before it begins at 4"));
  // Overlaps: the same bytes for many tensors, and partly the same.
  EXPECT_THAT(file(Tensor("a", "F32", "[2]", 0, 8) + "," + Tensor("b", "F32", "[2]", 0, 8), 8),
              HasSubstr("\"b\" begins at byte 0 of the data; expected 8"));
  EXPECT_THAT(file(Tensor("a", "F32", "[2]", 0, 8) + "," + Tensor("b", "F32", "[2]", 4, 12), 12),
              HasSubstr("\"b\" begins at byte 4 of the data; expected 8"));
  // A hole.
  EXPECT_THAT(file(Tensor("a", "F32", "[1]", 0, 4) + "," + Tensor("b", "F32", "[1]", 5, 9), 9),
              HasSubstr("\"b\" begins at byte 5 of the data; expected 4"));
  // Products that wrap to 0 or to a small number, as unsigned, as signed, and in bits.
  for (const char* shape :
       {"[4294967296,4294967296]", "[281474976710655,281474976710655]", "[140737488355328,131072]",
        "[4294967296,4294967296,0]", "[140737488355328,32768]"})
    EXPECT_THAT(file(Tensor("w", "F32", shape, 0, 0), 0), HasSubstr("no size in bytes")) << shape;
  EXPECT_THAT(file(Tensor("w", "F4", "[3]", 0, 1), 1), HasSubstr("no size in bytes"));
  EXPECT_THAT(file(Tensor("w", "F32", "[281474976710655]", 0, 281474976710655), 4), HasSubstr("needs"));
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  EXPECT_THAT(file(Tensor("w", "F32", shape + "]", 0, 4), 4), HasSubstr("shape has more than 64 entries"));
}

TEST(SafetensorsTest, RefusesBombsWithoutBuildingThem) {
  const std::string deep = "{\"w\":" + std::string(2'000'000, '[');
  EXPECT_THAT(Refusal(File(deep, "")), HasSubstr("\"w\" is a list; expected an object"));
  std::string list = R"({"w":{"dtype":"F32","shape":[1)";
  for (int i = 0; i < 1'000'000; ++i) list += ",1";
  EXPECT_THAT(Refusal(File(list, "")), HasSubstr("more than 64 entries"));
  EXPECT_THAT(Refusal(File("{\"" + std::string(5000, 'n') + "\":1}", "")), HasSubstr("a name of 5000 bytes"));
  std::string overlapping = "{";
  for (int i = 0; i < 10000; ++i) overlapping += Tensor(std::to_string(i), "U8", "[8]", 0, 8) + ",";
  overlapping.back() = '}';
  EXPECT_THAT(Refusal(File(overlapping, "01234567")), HasSubstr("expected 8, where the one before ends"));
}

// Every truncation and every single-bit flip of a small file: refused or read, never worse; no truncation
// passes.
TEST(SafetensorsTest, DamagedFiles) {
  const std::string whole =
      File("{" + Tensor("a", "F32", "[2]", 0, 8) + "," + Tensor("b", "U8", "[1]", 8, 9) + "}", "012345678");
  ASSERT_EQ(Refusal(whole), "accepted");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(Refusal(whole.substr(0, size)), "accepted") << size;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Result<SafetensorsContent> content = ParseSafetensors(Bytes(damaged), "x");
    if (!content.ok()) continue;
    size_t bytes = 0;
    for (const SafetensorsTensor& tensor : content->tensors) bytes += tensor.bytes.size();
    EXPECT_EQ(bytes, 9u);
  }
}

}  // namespace
}  // namespace samestep
