// Any tokenizer.json, applied to any text: refused, or ids of its vocabulary. The first line is the text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "data/bpe_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace samestep;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  const auto tokenizer = ParseHuggingFaceTokenizer(input.substr(std::min(line + 1, size)), "fuzz", {});
  if (!tokenizer.ok()) return 0;
  const Result<std::vector<int32_t>> ids = (*tokenizer)->Encode(input.substr(0, line));
  if (!ids.ok()) return 0;
  for (const int32_t id : *ids) SAMESTEP_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
  (void)(*tokenizer)->Decode(*ids);
  return 0;
}
