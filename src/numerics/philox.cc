#include "numerics/philox.h"

#include <xxhash.h>

#include <string>

namespace samestep {

uint32_t StreamId(std::string_view purpose, std::string_view logical_name) {
  std::string text(purpose);
  text += ':';
  text += logical_name;
  return static_cast<uint32_t>(XXH3_64bits(text.data(), text.size()));
}

void InitNormal(float* out, int64_t first_element, int64_t count, uint64_t seed, uint32_t stream,
                float standard_deviation) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t block = 3 * static_cast<uint64_t>(first_element + i);
    int64_t sum = -6 * (int64_t{1} << 24);
    for (int part = 0; part < 3; ++part) {
      for (uint32_t word : RandomBlock(seed, block + part, 0, stream)) sum += word >> 8;
    }
    // The sum has 28 bits: fl(z) would round it, so the product is formed exactly and rounded once.
    out[i] = static_cast<float>(static_cast<double>(standard_deviation) * static_cast<double>(sum) * 0x1p-24);
  }
}

}  // namespace samestep
