// Any bytes as a safetensors file: a refusal, or tensors that tile the data and can be read to the last byte.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto content = samestep::ParseSafetensors(file, "fuzz.safetensors");
  if (!content.ok()) return 0;
  size_t total = 0;
  unsigned sum = 0;
  for (const samestep::SafetensorsTensor& tensor : content->tensors) {
    SAMESTEP_CHECK(content->Find(tensor.name) == &tensor);
    total += tensor.bytes.size();
    for (const std::byte b : tensor.bytes) sum += std::to_integer<unsigned>(b);
  }
  SAMESTEP_CHECK(total + 8 <= size);
  volatile unsigned keep = sum;
  static_cast<void>(keep);
  return 0;
}
