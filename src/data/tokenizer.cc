#include "data/tokenizer.h"

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
  return NotFoundError("no tokenizer is called \"{}\"; known are: bytes", name);
}

}  // namespace samestep
