// What the fuzzer does, from real traces and a fixed seed, in every run of the tests: payloads are damaged
// under checksums that fit.
#include <gtest/gtest.h>
#include <zstd.h>

#include "trace/bytes.h"
#include "trace/capture.h"
#include "trace/stream.h"
#include "trace/toy_test.h"

namespace samestep {
namespace {

struct Block {
  int type;
  SegmentKey key;
  std::string payload;
};

std::vector<Block> BlocksOf(const std::string& file) {
  std::vector<Block> blocks;
  for (size_t at = TraceMark().size(); at < file.size();) {
    ByteReader in(std::string_view(file).substr(at));
    in.Fixed(4);
    Block block;
    block.type = static_cast<int>(in.Fixed(1));
    const bool compressed = in.Fixed(1) != 0;
    in.Fixed(2);
    block.key = SegmentKey::FromNumber(static_cast<int64_t>(in.Fixed(8)));
    const uint64_t raw = in.Fixed(4), stored = in.Fixed(4);
    in.Fixed(8);
    const std::string_view bytes = in.Raw(stored);
    block.payload = bytes;
    if (compressed) {
      block.payload.resize(raw);
      SAMESTEP_CHECK_EQ(ZSTD_decompress(block.payload.data(), raw, bytes.data(), bytes.size()), raw);
    }
    blocks.push_back(std::move(block));
    at += 32 + stored;
  }
  return blocks;
}

std::string Join(const std::vector<Block>& blocks) {
  std::string file(TraceMark());
  for (const Block& b : blocks) file += TraceBlock(b.type, b.key, b.payload);
  return file;
}

void Damage(uint64_t seed, std::vector<Block>* blocks) {
  uint64_t r = SplitMix(seed);
  const auto below = [&](uint64_t n) {
    r = SplitMix(r);
    return n == 0 ? 0 : r % n;
  };
  Block& block = (*blocks)[below(blocks->size())];
  for (uint64_t n = 1 + below(3); n > 0; --n) {
    std::string& p = block.payload;
    const size_t at = below(p.size());
    switch (below(7)) {
      case 0:
        if (!p.empty()) p[at] = static_cast<char>(p[at] ^ 1 << below(8));
        break;
      case 1:
        p.resize(at);
        break;
      case 2:
        p.insert(at, std::string(1 + below(10), '\xFF'));
        break;
      case 3:
        p.erase(at, 1 + below(4));
        break;
      case 4:
        block.type = static_cast<int>(1 + below(5));
        break;
      case 5:
        block.key = SegmentKey::FromNumber(static_cast<int64_t>(below(2) != 0 ? r : below(9)));
        break;
      default:
        p.insert(at, p.substr(below(p.size()), 40));
    }
  }
}

TEST(Hostile, NoPayloadCrashesTheReader) {
  toy::Folder folder;
  {
    toy::Environment environment({{"SAMESTEP_TRACE", folder.path()}});
    toy::Program{.micro_batch = 4}.Run();
  }
  const std::string file = *ReadFile(folder / "rank-00000-of-00001.trace");
  const std::vector<Block> blocks = BlocksOf(file);
  ASSERT_EQ(Join(blocks), file);
  int refused = 0, read = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::vector<Block> damaged = blocks;
    Damage(seed, &damaged);
    const std::string bytes = Join(damaged);
    auto opened = TraceFile::FromBytes(bytes, "hostile");
    if (!opened.ok()) {
      ++refused;
      continue;
    }
    for (size_t i = 0; i < (*opened)->segments().size(); ++i) {
      const auto segment = (*opened)->Read(i);
      ++(segment.ok() ? read : refused);
      if (!segment.ok()) {
        EXPECT_EQ(segment.status().ExitCode(), 2);
      }
    }
    (void)(*opened)->Verify();
  }
  EXPECT_GT(refused, 250);
  EXPECT_GT(read, 250);
}

TEST(Hostile, SmallFilesCannotClaimLargeMemory) {
  // A site with 200 tensors that all refer to one earlier slot, called again and again.
  Definition first, many;
  first.site.tensors = {{"x", true, DType::kF32, {1}, {1}, {0}}};
  first.sources = {0};
  for (int i = 0; i < 200; ++i) {
    many.site.tensors.push_back({"t", false, DType::kF32, {1}, {1}, {0}});
    many.sources.push_back(1);
  }
  ByteWriter definitions, events, sites;
  definitions.Varint(2).Text(DefinitionBytes(first)).Text(DefinitionBytes(many));
  constexpr uint64_t kCount = 1000000;
  sites.Signed(0).Signed(0);
  for (uint64_t i = 2; i < kCount; ++i) sites.Signed(-1);
  events.Varint(kCount).Text(sites.bytes()).Text("").Fixed(1, 8).Fixed(2, 8);
  RollUp end;
  end.key = {1, false};
  end.events = kCount;
  std::string file(TraceMark());
  file += TraceBlock(kHeaderBlock, {}, TraceHeader().ToJson());
  file += TraceBlock(kDefinitionBlock, end.key, definitions.bytes());
  file += TraceBlock(kEventBlock, end.key, events.bytes());
  file += TraceBlock(kEndBlock, end.key, end.Bytes());
  EXPECT_LT(file.size(), 10000u);
  auto opened = TraceFile::FromBytes(file, "bomb");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_EQ((*opened)->segments().size(), 1u);
  EXPECT_FALSE((*opened)->Read(0).ok());
}

TEST(Hostile, DamagedCapturesAreRefused) {
  toy::Folder folder;
  {
    toy::Environment environment({{"SAMESTEP_TRACE", folder.path()}, {"SAMESTEP_CAPTURE", "iteration=1"}});
    toy::Program{.last = 1}.Run();
  }
  std::string name;
  for (const std::string& n : folder.names()) name = n.starts_with("capture") && name.empty() ? n : name;
  const std::string good = *ReadFile(folder / name);
  ASSERT_TRUE(ReadCapture(folder / name).ok());
  for (size_t at = 0; at < 1200; ++at) {
    std::string bad = good;
    bad[at % bad.size()] = static_cast<char>(SplitMix(at));
    toy::Put(folder / "bad", bad);
    (void)ReadCapture(folder / "bad");
    toy::Put(folder / "bad", good.substr(0, at % good.size()));
    EXPECT_FALSE(ReadCapture(folder / "bad").ok()) << at;
  }
}

}  // namespace
}  // namespace samestep
