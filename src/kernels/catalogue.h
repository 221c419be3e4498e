// catalogue.h: the page that lists every kernel, made from the registry.
//
//   std::string page = OpCatalogue();   // docs/determinism/op-catalogue.md
//
// Determinism: sorted by name; a function of the registry alone.
#pragma once

#include <string>

namespace samestep {

// Markdown.
std::string OpCatalogue();

}  // namespace samestep
