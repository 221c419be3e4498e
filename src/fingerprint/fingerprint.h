// fingerprint.h: 128 bits that identify a tensor's exact contents and add up over shards.
//
//   Fingerprint f = FingerprintOf(weights.view());
//   Fingerprint whole = FingerprintOf(left_half) + FingerprintOf(right_half);   // views know their position
//   fmt::print("{}", f.hex());
//
// A kernel that has just written words, still in the cache, fuses the sum:
//
//   Fingerprint f;                                            // one a task; add the tasks' up afterwards
//   AddWords(reinterpret_cast<const uint32_t*>(w), first_word, count, &f);
//
// The definition (docs/formats/fingerprint.md): the logical tensor, row-major, packed, little-endian, as
// 32-bit words; A = sum over w of word(w) * pa(w mod 1024) * qa(w div 1024) mod 2^64, B likewise. Two tensors
// are equal only where dtype and global shape are, too.
//
// Determinism: a sum of integers has no order; any threads, shards and SIMD targets give one value.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace samestep {

struct Fingerprint {
  uint64_t a = 0, b = 0;

  bool operator==(const Fingerprint&) const = default;
  Fingerprint& operator+=(const Fingerprint& other) {
    a += other.a;
    b += other.b;
    return *this;
  }
  friend Fingerprint operator+(Fingerprint left, const Fingerprint& right) { return left += right; }
  Fingerprint& operator-=(const Fingerprint& other) {
    a -= other.a;
    b -= other.b;
    return *this;
  }
  std::string hex() const;  // 32 digits: A, then B
  static Result<Fingerprint> FromHex(std::string_view text);
};

// Of any dtype, strides and position. Large views are cut into tasks of ParallelFor.
Fingerprint FingerprintOf(const TensorView& view);

// Adds `count` whole words that begin at word `first_word` of the logical tensor. One thread, vectorised;
// `words` needs no alignment.
void AddWords(const void* words, uint64_t first_word, uint64_t count, Fingerprint* sum);

// The keys, for kernels that make the sum themselves.
inline constexpr uint64_t kFingerprintBlock = 1024;
struct FingerprintKeys {
  alignas(64) std::array<uint32_t, kFingerprintBlock> pa;
  alignas(64) std::array<uint32_t, kFingerprintBlock> pb;
};
const FingerprintKeys& Keys();

constexpr uint64_t SplitMix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
constexpr uint64_t BlockKeyA(uint64_t block) { return SplitMix(block ^ 0x1234567800000000u) | 1; }
constexpr uint64_t BlockKeyB(uint64_t block) { return SplitMix(block ^ 0x8765432100000000u) | 1; }

}  // namespace samestep
