// unicode_tables.h: the generated tables (scripts/make_unicode_tables.py) that unicode.cc looks things up in.
//
//   kPropertyRuns[i].first ... kPropertyRuns[i + 1].first - 1    // have kPropertyRuns[i].property
//
// The tables are those of Hugging Face's tokenizers 0.23.3: Unicode 16 in regular expressions, 17 for Digits,
// and an older one in the normalizer.
//
// Determinism: constants.
#pragma once

#include <cstdint>

namespace samestep {

struct PropertyRun {
  uint32_t first;
  uint8_t property;
};
struct Decomposition {
  uint32_t code_point;
  uint16_t first;
  uint16_t length;
};
struct Composition {
  uint32_t first;
  uint32_t second;
  uint32_t composed;
};
struct CombiningClass {
  uint32_t code_point;
  uint8_t value;
};

extern const PropertyRun kPropertyRuns[];
extern const int kPropertyRunCount;
extern const uint32_t kDecomposed[];
extern const Decomposition kDecompositions[];
extern const int kDecompositionCount;
extern const Composition kCompositions[];
extern const int kCompositionCount;
extern const CombiningClass kCombiningClasses[];
extern const int kCombiningClassCount;

}  // namespace samestep
