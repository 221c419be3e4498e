#include "data/tokenizer.h"

#include "base/files.h"
#include "data/bpe_tokenizer.h"

namespace samestep {

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  SAMESTEP_RETURN_IF_ERROR(NewEncoder()->Encode(text, ids));
  return ids;
}

Result<std::shared_ptr<const Tokenizer>> OpenTokenizer(const std::string& name,
                                                       const TokenizerOptions& options) {
  if (name == "bytes") {
    if (!options.eod.empty())
      return UsageError("the tokenizer \"bytes\" has its own end of document, token 256");
    return MakeByteTokenizer();
  }
  if (!FileExists(name)) {
    return NotFoundError(
        "no tokenizer {}: neither \"bytes\" nor a tokenizer.json nor a folder with one, or with GPT-2's "
        "vocab.bpe and encoder.json",
        name);
  }
  if (!IsFolder(name)) return LoadHuggingFaceTokenizer(name, options);
  const std::string json = JoinPath(name, "tokenizer.json");
  if (FileExists(json)) return LoadHuggingFaceTokenizer(json, options);
  const std::string merges = JoinPath(name, "vocab.bpe");
  const std::string vocab = JoinPath(name, "encoder.json");
  if (FileExists(merges) && FileExists(vocab)) return LoadGpt2Tokenizer(merges, vocab, options);
  return NotFoundError("{}: the folder holds neither tokenizer.json nor vocab.bpe and encoder.json", name);
}

}  // namespace samestep
