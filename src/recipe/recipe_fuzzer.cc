// Any bytes as a recipe: a refusal or a recipe whose canonical text reads back as itself.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "recipe/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto recipe = samestep::ParseRecipe(text, "fuzz.toml", "/");
  if (!recipe.ok()) return 0;
  const std::string canonical = samestep::CanonicalText(*recipe);
  const auto again = samestep::ParseRecipe(canonical, "canonical", "/");
  SAMESTEP_CHECK(again.ok());
  SAMESTEP_CHECK(samestep::CanonicalText(*again) == canonical);
  return 0;
}
