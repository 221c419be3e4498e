// bpe_tokenizer.h: the steps from text to byte pair encoding, as Hugging Face's tokenizer.json describes
// them.
//
//   SAMESTEP_ASSIGN_OR_RETURN(auto tokenizer, LoadHuggingFaceTokenizer("llama3/tokenizer.json", {}));
//   SAMESTEP_ASSIGN_OR_RETURN(auto gpt2, LoadGpt2Tokenizer("gpt2/vocab.bpe", "gpt2/encoder.json", {}));
//
// Text is cut at added tokens, normalized, cut into pieces by the pre-tokenizers, and each piece is merged.
// Ids are those of `Tokenizer.encode(text, add_special_tokens=False)` of PyPI's tokenizers 0.23.3. What a
// tokenizer.json asks for and this cannot do is refused by name when the file is read.
//
// Determinism: a function of the files and the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "data/tokenizer.h"

namespace samestep {

Result<std::shared_ptr<const Tokenizer>> LoadHuggingFaceTokenizer(const std::string& path,
                                                                  const TokenizerOptions& options);
// The same from the file's text; `name` is what messages call it.
Result<std::shared_ptr<const Tokenizer>> ParseHuggingFaceTokenizer(std::string_view json,
                                                                   const std::string& name,
                                                                   const TokenizerOptions& options);

// OpenAI's two files. The text <|endoftext|> in a document is text like any other here: documents cannot end
// themselves.
Result<std::shared_ptr<const Tokenizer>> LoadGpt2Tokenizer(const std::string& merges_path,
                                                           const std::string& vocab_path,
                                                           const TokenizerOptions& options);

}  // namespace samestep
