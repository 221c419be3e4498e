#include "base/version.h"
#include "recipe/schema.h"

namespace samestep {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (byte < 0x20 || byte == 0x7F)
      quoted += fmt::format("\\u{:04X}", byte);
    else
      quoted += c;
  }
  return quoted + '"';
}

// One text for each value: as people write it where that is short ("0.95", "10000"), else as "1e-8".
std::string Readable(const Decimal& value) {
  const std::string text = value.ToString();
  const size_t e = text.find('e');
  if (e == std::string::npos || value.IsNegative()) return text;
  const std::string digits = text.substr(0, e);
  const int exponent = std::stoi(text.substr(e + 1));
  const int whole = static_cast<int>(digits.size()) + exponent;  // digits before the point
  if (exponent >= 0) return exponent <= 6 ? digits + std::string(static_cast<size_t>(exponent), '0') : text;
  if (whole > 0)
    return digits.substr(0, static_cast<size_t>(whole)) + "." + digits.substr(static_cast<size_t>(whole));
  return whole >= -3 ? "0." + std::string(static_cast<size_t>(-whole), '0') + digits : text;
}

std::string Joined(const std::vector<Decimal>& values, std::string_view separator) {
  std::string text;
  for (const Decimal& value : values)
    text += fmt::format("{}{}", text.empty() ? "" : separator, Readable(value));
  return text;
}

// The value of one field as TOML. Reading a slot needs a mutable recipe, so a copy is passed in.
struct ValueText {
  Recipe& recipe;
  bool with_paths;

  std::string operator()(IntegerSlot slot) const { return std::to_string(slot(recipe)); }
  std::string operator()(DecimalSlot slot) const { return Readable(slot(recipe)); }
  std::string operator()(BooleanSlot slot) const { return slot(recipe) ? "true" : "false"; }
  std::string operator()(const PathSlot& slot) const { return Quoted(slot.get(recipe)); }
  std::string operator()(const ChoiceSlot& slot) const {
    return Quoted(slot.names[static_cast<size_t>(slot.get(recipe))]);
  }
  std::string operator()(SplitSlot) const { return Quoted(Joined(recipe.data.split, ",")); }
  std::string operator()(SourcesSlot) const {
    std::string text;
    for (const DataSource& source : recipe.data.sources) {
      text += text.empty() ? "" : ", ";
      text += with_paths
                  ? fmt::format("{{path = {}, weight = {}}}", Quoted(source.path), Readable(source.weight))
                  : fmt::format("{{weight = {}}}", Readable(source.weight));
    }
    return "[" + text + "]";
  }
  std::string operator()(SourceSlot) const { return ""; }  // told by data.sources
};

std::string Text(Recipe recipe, bool shaping_only) {
  std::string text;
  std::string_view table;
  for (const Field& field : Schema()) {
    if (std::holds_alternative<SourceSlot>(field.slot)) continue;
    if (shaping_only && field.shapes == Shapes::kNo) continue;
    if (field.table != table) {
      table = field.table;
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table);
    }
    text += fmt::format("{} = {}\n", field.name, std::visit(ValueText{recipe, !shaping_only}, field.slot));
  }
  return text;
}

}  // namespace

std::string CanonicalText(const Recipe& recipe) { return Text(recipe, false); }

std::string ShapingText(const Recipe& recipe) {
  return fmt::format("profile = \"{}\"\n\n{}", kNumericsProfile, Text(recipe, true));
}

Digest RecipeDigest(const Recipe& recipe) { return DigestOf(ShapingText(recipe)); }

}  // namespace samestep
