#include <fmt/format.h>

#include "data/tokenizer.h"

namespace samestep {
namespace {

constexpr int32_t kEod = 256;

class ByteEncoder : public Encoder {
 public:
  Status Encode(std::string_view text, std::vector<int32_t>& ids) override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
    return {};
  }
};

class ByteTokenizer : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  int64_t vocab_size() const override { return kEod + 1; }
  int32_t eod() const override { return kEod; }
  std::unique_ptr<Encoder> NewEncoder() const override { return std::make_unique<ByteEncoder>(); }

  Result<std::string> Decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id < 0 || id > kEod) return InvalidError("token {} is not in the vocabulary of 257 (bytes)", id);
      if (id != kEod) text.push_back(static_cast<char>(id));
    }
    return text;
  }
};

}  // namespace

std::shared_ptr<const Tokenizer> MakeByteTokenizer() { return std::make_shared<ByteTokenizer>(); }

}  // namespace samestep
