// philox.h: randomness that is addressed, not drawn: Philox4x32-10.
//
//   uint32_t stream = StreamId("init", "model.embed_tokens.weight");
//   InitNormal(weights, first_element, count, seed, stream, 0.02f);     // any part of the logical tensor
//   uint32_t word = RandomWord(seed, element, step, StreamId("dropout", name));
//
// Determinism: a word is a function of seed, stream, step and element; there is no state to keep or lose.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace samestep {

// The generator itself: counter words first to last, key low word first.
inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Low 32 bits of XXH3-64 of "purpose:logical_name"; purposes are init, dropout and round.
uint32_t StreamId(std::string_view purpose, std::string_view logical_name);

inline std::array<uint32_t, 4> RandomBlock(uint64_t seed, uint64_t block, uint32_t step, uint32_t stream) {
  return Philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step, stream},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// The word of an element of the logical tensor.
inline uint32_t RandomWord(uint64_t seed, uint64_t element, uint32_t step, uint32_t stream) {
  return RandomBlock(seed, element / 4, step, stream)[element % 4];
}

// Elements [first_element, first_element + count) of the logical tensor's initial weights: an almost normal
// value (the sum of twelve uniform ones) times `standard_deviation`.
void InitNormal(float* out, int64_t first_element, int64_t count, uint64_t seed, uint32_t stream,
                float standard_deviation);

}  // namespace samestep
