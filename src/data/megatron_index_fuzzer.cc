// Any .idx file with any .bin size: refused, or consistent. megatron_index_test.cc replays the same property.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "data/megatron_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace samestep;
  uint64_t bin_size = 0;
  if (size < sizeof bin_size) return 0;
  std::memcpy(&bin_size, data, sizeof bin_size);
  const std::span<const std::byte> index(reinterpret_cast<const std::byte*>(data) + sizeof bin_size,
                                         size - sizeof bin_size);
  const Result<MegatronIndexHeader> header = ParseMegatronIndex(index, bin_size, "x.idx", "x.bin");
  if (header.ok()) {
    SAMESTEP_CHECK_EQ(header->tokens * static_cast<uint64_t>(TokenBytes(header->type)), bin_size);
    SAMESTEP_CHECK_EQ(header->documents_at + 8 * static_cast<uint64_t>(header->document_bounds),
                      index.size());
  }
  return 0;
}
