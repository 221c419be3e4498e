// words.h: the inner sums of a fingerprint: words of one block times their keys.
//
//   BlockSums sums = SumWords(bytes, w % kFingerprintBlock, count);   // all within one block
//   f.a += sums.a * BlockKeyA(w / kFingerprintBlock);
//
// Determinism: integers; the same on every SIMD target.
#pragma once

#include <cstdint>

namespace samestep {

struct BlockSums {
  uint64_t a = 0, b = 0;
};

// `count` little-endian words at `words` (unaligned), the first at `first` of its block; first + count <=
// 1024.
BlockSums SumWords(const void* words, uint64_t first, uint64_t count);

}  // namespace samestep
