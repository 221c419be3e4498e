// tokenizer.h: text to token ids and back.
//
//   SAMESTEP_ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, OpenTokenizer("bytes"));
//   std::unique_ptr<Encoder> encoder = tokenizer->NewEncoder();      // one for each thread
//   std::vector<int32_t> ids;
//   SAMESTEP_RETURN_IF_ERROR(encoder->Encode("In the beginning", ids));
//   SAMESTEP_ASSIGN_OR_RETURN(std::string text, tokenizer->Decode(ids));
//
// Determinism: ids are a function of the text and of the tokenizer's files; caches change speed only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace samestep {

// Holds what a tokenizer needs while it works: buffers, and a cache of pieces that it has seen.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`. kInvalid, with the byte, if the text is not UTF-8 and the tokenizer needs it.
  virtual Status Encode(std::string_view text, std::vector<int32_t>& ids) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;
  virtual int64_t vocab_size() const = 0;  // the largest id and one
  virtual int32_t eod() const = 0;         // ends a document; -1: the tokenizer has no such token
  virtual std::unique_ptr<Encoder> NewEncoder() const = 0;
  // The bytes that the ids stand for. kInvalid if an id is not in the vocabulary.
  virtual Result<std::string> Decode(std::span<const int32_t> ids) const = 0;

  Result<std::vector<int32_t>> Encode(std::string_view text) const;
};

struct TokenizerOptions {
  std::string eod;  // the token that ends a document; empty: the one that the tokenizer is known to have
};

// "bytes"; a tokenizer.json; or a folder with either tokenizer.json or GPT-2's vocab.bpe and encoder.json.
Result<std::shared_ptr<const Tokenizer>> OpenTokenizer(const std::string& name,
                                                       const TokenizerOptions& options = {});

// Ids 0 to 255 are the bytes, 256 ends a document.
std::shared_ptr<const Tokenizer> MakeByteTokenizer();

}  // namespace samestep
