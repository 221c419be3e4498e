#include "recipe/schema.h"

namespace samestep {
namespace {

// Bars would end a cell of a Markdown table.
std::string Cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string DefaultCell(const Field& field) {
  if (field.required()) return "required";
  return field.fallback.empty() ? Cell(field.derived) : fmt::format("`{}`", Cell(field.fallback));
}

std::string Row(const Field& field) {
  const std::string unit = field.unit.empty() ? "" : fmt::format(" ({})", field.unit);
  return fmt::format("| `{}` | {}{} | {} | {} | {} |\n", field.name, Cell(field.Expected()), unit,
                     DefaultCell(field), field.shapes == Shapes::kTrajectory ? "yes" : "no",
                     Cell(field.documentation));
}

}  // namespace

std::string RecipeDocumentation() {
  std::string text =
      "# Recipes\n\n"
      "A recipe is one TOML file that holds all that a run is made of. `samestep recipe check FILE` reads "
      "and "
      "checks one, `samestep recipe show FILE` prints it with all defaults, and `--set table.field=value` "
      "changes a field for one run. Unknown fields are refused.\n\n"
      "Fields with *yes* under *shapes* are in the recipe's digest: runs whose digests agree have the same "
      "bits "
      "in each step, given the same data. The others may differ between a run and its resumption. Decimals "
      "are "
      "taken by the exact value of their digits, so `3e-4` and `0.0003` are one value.\n\n"
      "This page is made from the schema by `samestep recipe docs`.\n";
  for (const Table& table : SchemaTables()) {
    text += fmt::format("\n## [{}]\n\n{}\n\n", table.name, table.documentation);
    text += "| field | value | default | shapes | meaning |\n|---|---|---|---|---|\n";
    for (const Field& field : Schema())
      if (field.table == table.name) text += Row(field);
  }
  return text;
}

}  // namespace samestep
