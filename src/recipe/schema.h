// schema.h: the one table of all recipe fields; whatever knows about fields reads it.
//
//   for (const Field& field : Schema()) ...            // in the order of the documentation and the digest
//   const Field* field = FindField("train.steps");     // null if there is none
//
// To add a field: a member in recipe.h and an entry in schema.cc. Parsing, range checks, defaults, the
// canonical text, the digest and the documentation page follow. What several fields must satisfy together
// goes into validate.cc.
//
// Determinism: a constant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recipe/recipe.h"

namespace samestep {

// Where a value lives in a Recipe, by type.
using IntegerSlot = int64_t& (*)(Recipe&);
using DecimalSlot = Decimal& (*)(Recipe&);
using BooleanSlot = bool& (*)(Recipe&);
struct PathSlot {
  std::string& (*get)(Recipe&);
  std::string_view keyword;  // a value that is not a path ("bytes"), or empty
};
struct ChoiceSlot {
  std::vector<std::string_view> names;  // in the order of the enumeration
  int (*get)(const Recipe&);
  void (*set)(Recipe&, int);
};
struct SplitSlot {};    // data.split
struct SourcesSlot {};  // data.sources
struct SourceSlot {};   // data.path: one source of weight 1
using Slot = std::variant<IntegerSlot, DecimalSlot, BooleanSlot, PathSlot, ChoiceSlot, SplitSlot, SourcesSlot,
                          SourceSlot>;

struct Range {
  double low = 0;
  double high = 0;
  bool low_open = false;  // low itself is not allowed
  bool high_open = false;
  bool Contains(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};

enum class Shapes { kNo, kTrajectory };

struct Field {
  std::string_view table;
  std::string_view name;
  Slot slot;
  std::string_view fallback;  // the default as a TOML value; empty: required, or derived
  std::string_view derived;   // how the default follows from other fields, in words; empty: it does not
  Range range;                // of integers and decimals
  std::string_view unit;
  Shapes shapes;
  std::string_view documentation;

  std::string key() const;       // "train.steps"
  std::string Expected() const;  // "an integer from 1 to 4096"
  bool required() const { return fallback.empty() && derived.empty(); }
};

struct Table {
  std::string_view name;
  std::string_view documentation;
};

const std::vector<Table>& SchemaTables();
const std::vector<Field>& Schema();
const Field* FindField(std::string_view key);

}  // namespace samestep
