#include "recipe/stray_text.h"

#include <algorithm>

namespace samestep {
namespace {

// The end of the string that begins at `begin` with its quote. A string of one line also ends, wrongly, with
// the line: there the parser stops.
size_t EndOfString(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool many_lines = text.substr(begin, 3) == three;
  size_t at = begin + (many_lines ? 3 : 1);
  while (at < text.size()) {
    if (text[at] == '\\' && quote == '"') {
      at += 2;
    } else if (many_lines && text.substr(at, 3) == three) {
      at += 3;  // up to two more quotes belong to the content
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    } else if (!many_lines && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else {
      ++at;
    }
  }
  return text.size();
}

}  // namespace

std::optional<size_t> StrayNonAscii(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) > 127) return at;
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"' || text[at] == '\'') {
      at = EndOfString(text, at);
    } else {
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace samestep
