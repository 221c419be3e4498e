#include "fingerprint/fingerprint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/files.h"
#include "base/parallel_for.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

// n elements of `bits` bits, packed: the low bits of SplitMix(seed * 2^32 + i), as the vectors have them.
std::vector<uint8_t> Sample(uint64_t n, uint64_t bits, uint64_t seed) {
  std::vector<uint8_t> bytes((n * bits + 7) / 8 + 1);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t value = SplitMix((seed << 32) + i);
    for (uint64_t bit = 0; bit < bits; ++bit) {
      const uint64_t at = i * bits + bit;
      bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] | (value >> bit & 1) << at % 8);
    }
  }
  return bytes;
}

DType TypeOfBits(uint64_t bits) {
  switch (bits) {
    case 4:
      return DType::kF4;
    case 8:
      return DType::kF8E4M3;
    case 16:
      return DType::kBF16;
    case 64:
      return DType::kI64;
    case 128:
      return DType::kC128;
    default:
      return DType::kF32;
  }
}

// The definition, an element's nibble at a time: the reference for strides, shards and every width.
Fingerprint Plain(const TensorView& view) {
  Fingerprint sum;
  const auto bits = static_cast<uint64_t>(BitsOf(view.dtype));
  for (int64_t e = 0; e < view.elements(); ++e) {
    int64_t rest = e, memory = 0, global = 0, step = 1;
    for (int i = view.shape.rank() - 1; i >= 0; --i) {
      const int64_t index = rest % view.shape[i];
      rest /= view.shape[i];
      memory += index * view.strides[i];
      global += (view.offsets[i] + index) * step;
      step *= view.global_shape[i];
    }
    for (uint64_t bit = 0; bit < bits; bit += 4) {
      const uint64_t from = static_cast<uint64_t>(memory) * bits + bit;
      const uint64_t to = static_cast<uint64_t>(global) * bits + bit;
      const uint32_t nibble = static_cast<const uint8_t*>(view.data)[from / 8] >> from % 8 & 15u;
      const uint64_t word = uint64_t{nibble} << to % 32, w = to / 32;
      sum.a += word * Keys().pa[w % 1024] * BlockKeyA(w / 1024);
      sum.b += word * Keys().pb[w % 1024] * BlockKeyB(w / 1024);
    }
  }
  return sum;
}

TEST(Fingerprint, VectorsOnEveryTarget) {
  auto text = ReadFile(std::string(SAMESTEP_TEST_DATA) + "/fingerprint_vectors.json");
  ASSERT_TRUE(text.ok()) << text.status().message();
  const auto vectors = nlohmann::json::parse(*text);
  ASSERT_GE(vectors.size(), 10u);
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    for (const auto& v : vectors) {
      const uint64_t n = v["elements"], bits = v["bits"], seed = v["seed"];
      auto bytes = Sample(n, bits, seed);
      const TensorView view = ViewOf(bytes.data(), {static_cast<int64_t>(n)}, TypeOfBits(bits));
      EXPECT_EQ(FingerprintOf(view).hex(), v["fingerprint"].get<std::string>()) << target << " seed " << seed;
    }
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

// Cuts a box in two at random places until pieces are small; their fingerprints must add up to the whole's.
void Cut(const TensorView& view, uint64_t seed, int depth, std::vector<TensorView>* pieces) {
  const int d = static_cast<int>(SplitMix(seed) % static_cast<uint64_t>(view.shape.rank()));
  if (depth == 0 || view.shape[d] < 2) {
    pieces->push_back(view);
    return;
  }
  const auto at = static_cast<int64_t>(1 + SplitMix(seed + 1) % static_cast<uint64_t>(view.shape[d] - 1));
  TensorView left = view, right = view;
  left.shape[d] = at;
  right.shape[d] -= at;
  right.offsets[d] += at;
  // The part keeps the base address only where its first element begins a byte, as views of tensors do.
  const int64_t bits = at * view.strides[d] * BitsOf(view.dtype);
  if (bits % 8 != 0) {
    pieces->push_back(view);
    return;
  }
  right.data = static_cast<uint8_t*>(view.data) + bits / 8;
  Cut(left, SplitMix(seed + 2), depth - 1, pieces);
  Cut(right, SplitMix(seed + 3), depth - 1, pieces);
}

TEST(Fingerprint, AddsUpOverShardsOfEveryWidth) {
  for (uint64_t bits : {4, 8, 16, 32, 64, 128}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Shape shape{3, 1 + static_cast<int64_t>(SplitMix(seed) % 40),
                        1 + static_cast<int64_t>(SplitMix(seed + 7) % 90)};
      auto bytes = Sample(static_cast<uint64_t>(shape.elements()) * std::max<uint64_t>(1, bits / 32),
                          std::min<uint64_t>(bits, 32), seed);
      bytes.resize(bytes.size() + 64);
      const TensorView whole = ViewOf(bytes.data(), shape, TypeOfBits(bits));
      std::vector<TensorView> pieces;
      Cut(whole, seed * 100, 5, &pieces);
      Fingerprint sum;
      for (const TensorView& piece : pieces) {
        EXPECT_EQ(FingerprintOf(piece), Plain(piece));
        sum += FingerprintOf(piece);
      }
      EXPECT_EQ(sum, FingerprintOf(whole));
      EXPECT_EQ(FingerprintOf(whole), Plain(whole)) << bits << " bits, seed " << seed;
    }
  }
}

TEST(Fingerprint, StridesAndBytesThatBeginMidElement) {
  auto bytes = Sample(64 * 64 * 8, 8, 3);
  for (uint64_t bits : {4, 8, 16, 32}) {
    for (int64_t stride : {7, 8, 33}) {
      TensorView view = ViewOf(bytes.data() + 1, {31, 7}, TypeOfBits(bits));  // unaligned
      view.strides[0] = stride;
      EXPECT_EQ(FingerprintOf(view), Plain(view)) << bits << " " << stride;
      const TensorView part = view.Within({40, 19}, {5, 3});
      EXPECT_EQ(FingerprintOf(part), Plain(part)) << bits << " " << stride;
      view.strides[1] = 3;
      EXPECT_EQ(FingerprintOf(view), Plain(view));
    }
  }
}

TEST(Fingerprint, LargeTensorsAnyThreads) {
  constexpr int64_t kRows = 1025, kColumns = 1531;
  auto bytes = Sample(kRows * kColumns, 32, 5);
  const TensorView view = ViewOf(bytes.data(), {kRows, kColumns});
  TensorView columns = view;
  columns.shape[1] = 700;
  SetSchedule({.threads = 1});
  const Fingerprint one = FingerprintOf(view), part = FingerprintOf(columns);
  EXPECT_EQ(part, Plain(columns));
  for (int threads : {2, 3}) {
    SetSchedule({.threads = threads, .hostile_seed = 9});
    EXPECT_EQ(FingerprintOf(view), one);
    EXPECT_EQ(FingerprintOf(columns), part);
  }
  SetSchedule({});
  Fingerprint fused;
  for (int64_t row = 0; row < kRows; ++row) {
    AddWords(view.f32() + row * kColumns, static_cast<uint64_t>(row * kColumns), kColumns, &fused);
  }
  EXPECT_EQ(fused, one);
}

// Negative controls: what an XOR of values would not see.
TEST(Fingerprint, SeesSwapsMovesAndSingleBits) {
  std::vector<float> values(3000);
  std::iota(values.begin(), values.end(), 1.0f);
  const TensorView view = ViewOf(values.data(), {3000});
  const Fingerprint before = FingerprintOf(view);
  for (auto [i, j] : {std::pair{0, 1}, {5, 1029}, {17, 2999}, {1023, 1024}}) {
    std::swap(values[static_cast<size_t>(i)], values[static_cast<size_t>(j)]);
    EXPECT_NE(FingerprintOf(view), before);
    std::swap(values[static_cast<size_t>(i)], values[static_cast<size_t>(j)]);
  }
  values[7] = 0;
  const Fingerprint zero_at_7 = FingerprintOf(view);
  std::swap(values[7], values[8]);
  EXPECT_NE(FingerprintOf(view), zero_at_7);  // a moved zero
  std::swap(values[7], values[8]);
  values[7] = -0.0f;
  EXPECT_NE(FingerprintOf(view), zero_at_7);
  values[7] = 8;
  EXPECT_EQ(FingerprintOf(view), before);
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t word;
    std::memcpy(&word, &values[1500], 4);
    word ^= 1u << bit;
    std::memcpy(&values[1500], &word, 4);
    EXPECT_NE(FingerprintOf(view).a, before.a);
    EXPECT_NE(FingerprintOf(view).b, before.b);
    word ^= 1u << bit;
    std::memcpy(&values[1500], &word, 4);
  }
  EXPECT_NE(FingerprintOf(view.Within({3001}, {1})), before);  // another place
}

TEST(Fingerprint, HexIsReadBackAndChecked) {
  const Fingerprint f{0x0123456789abcdefu, 0xfedcba9876543210u};
  EXPECT_EQ(f.hex(), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(*Fingerprint::FromHex(f.hex()), f);
  EXPECT_FALSE(Fingerprint::FromHex("0123").ok());
  EXPECT_FALSE(Fingerprint::FromHex("0123456789ABCDEFfedcba9876543210").ok());
}

TEST(Fingerprint, AbsentAndEmptyAreZero) {
  EXPECT_EQ(FingerprintOf(TensorView{}), Fingerprint());
  float x = 1;
  EXPECT_EQ(FingerprintOf(ViewOf(&x, {0, 4})), Fingerprint());
}

}  // namespace
}  // namespace samestep
