// stray_text.h: finds what TOML allows only in strings and comments: characters beyond ASCII.
//
//   if (const auto offset = StrayNonAscii(text)) ...      // a no-break space pasted between key and value,
//   say
//
// toml++ up to 3.4 has undefined behaviour on some of these characters, so they are refused before it reads.
//
// Determinism: a function of the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace samestep {

// The offset of the first byte above 127 that is neither in a string nor in a comment.
std::optional<size_t> StrayNonAscii(std::string_view text);

}  // namespace samestep
