// validate.h: what several fields of a recipe must satisfy together.
//
//   Derive(recipe, given);                       // defaults that follow from other fields
//   Status status = Validate(recipe, given);     // the first violated rule, naming what would be accepted
//
// `given` maps the key of each field that the user set to where: "tiny.toml:12" or "--set train.steps=3".
//
// Determinism: functions of the fields.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "recipe/recipe.h"

namespace samestep {

struct GivenFields {
  std::string recipe_name;
  std::map<std::string, std::string> where;
  bool Has(const std::string& key) const { return where.count(key) > 0; }
  // Of the first of the keys that the user set; the recipe itself if none is.
  std::string Where(std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (const auto found = where.find(key); found != where.end()) return found->second;
    return recipe_name;
  }
};

void Derive(Recipe& recipe, const GivenFields& given);
Status Validate(const Recipe& recipe, const GivenFields& given);

}  // namespace samestep
