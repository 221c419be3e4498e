// TOML to Recipe, driven by the schema. Problems are collected and reported together, in the file's order.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
// Some of the library's assertions do not hold for malformed text ("[[["), which it refuses right after them.
// They are neither checked nor assumed; the fuzzer watches over what follows.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <list>
#include <sstream>

#include "base/files.h"
#include "recipe/nearest.h"
#include "recipe/schema.h"
#include "recipe/stray_text.h"
#include "recipe/validate.h"

namespace samestep {
namespace {

constexpr uint64_t kLargestRecipe = uint64_t{1} << 18;
constexpr size_t kMostSources = 1024;
constexpr size_t kMostProblems = 8;

// A piece of TOML (the file, or the value of one override) with what is needed to quote from it.
struct Document {
  std::string name;  // the file, or "--set train.steps=20"
  bool is_file = false;
  std::string folder;  // of relative paths
  std::string text;
  std::vector<size_t> line_starts;
  toml::table table;

  std::string Where(const toml::source_position& at) const {
    return is_file ? fmt::format("{}:{}", name, at.line) : name;
  }

  // The text from a position on; columns count code points.
  std::string_view From(const toml::source_position& at) const {
    if (at.line == 0 || at.line > line_starts.size()) return {};
    size_t offset = line_starts[at.line - 1];
    for (uint32_t column = 1; column < at.column && offset < text.size(); ++column) {
      ++offset;
      while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80) ++offset;
    }
    return std::string_view(text).substr(offset);
  }
};

// What the user wrote for one field.
struct Given {
  const toml::node* node;
  const Document* document;
};

// "a\nb" as a TOML string.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string Shortened(std::string_view text) {
  constexpr size_t kLongest = 60;
  return text.size() <= kLongest ? std::string(text) : std::string(text.substr(0, kLongest)) + "...";
}

std::string_view TypeName(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a decimal number";
    case toml::node_type::boolean:
      return "a truth value";
    default:
      return "a date or time";
  }
}

Status ParseDocument(Document& document) {
  if (document.text.size() >= 3 && document.text.compare(0, 3, "\xEF\xBB\xBF") == 0)
    document.text.erase(0, 3);
  document.line_starts = {0};
  for (size_t i = 0; i < document.text.size(); ++i)
    if (document.text[i] == '\n') document.line_starts.push_back(i + 1);
  if (const std::optional<size_t> stray = StrayNonAscii(document.text)) {
    toml::source_position at{};
    at.line = static_cast<toml::source_index>(
        std::count(document.text.begin(), document.text.begin() + static_cast<ptrdiff_t>(*stray), '\n') + 1);
    return UsageError("{}: not valid TOML: a character beyond ASCII outside of quotes and comments",
                      document.Where(at));
  }
  toml::parse_result result = toml::parse(std::string_view(document.text), std::string_view(document.name));
  if (!result) {
    const toml::parse_error& error = result.error();
    return UsageError("{}: not valid TOML: {}", document.Where(error.source().begin), error.description());
  }
  document.table = std::move(result).table();
  return {};
}

class Loader {
 public:
  Loader(const std::string& name, const std::string& folder) {
    file_.name = given_.recipe_name = name;
    file_.is_file = true;
    file_.folder = folder;
  }

  Result<Recipe> Load(std::string_view text, const std::vector<std::string>& overrides) {
    file_.text = text;
    SAMESTEP_RETURN_IF_ERROR(ParseDocument(file_));
    Collect();
    for (const std::string& override : overrides) SAMESTEP_RETURN_IF_ERROR(Override(override));
    for (const Field& field : Schema()) Fill(field);
    if (!problems_.empty()) return Problems();
    Derive(recipe_, given_);
    SAMESTEP_RETURN_IF_ERROR(Validate(recipe_, given_));
    return recipe_;
  }

 private:
  // The fields of the file, by key; what the schema does not know becomes a problem.
  void Collect() {
    for (const auto& [key, node] : file_.table) {
      const std::string_view table = key.str();
      std::vector<std::string_view> tables;
      for (const Table& known : SchemaTables()) tables.push_back(known.name);
      const bool known = std::find(tables.begin(), tables.end(), table) != tables.end();
      if (known && !node.is_table()) {
        Problem(file_, key.source().begin,
                fmt::format("{} is {}; expected the table [{}]", table, TypeName(node.type()), table));
      } else if (!known && node.is_table()) {
        Problem(file_, key.source().begin,
                fmt::format("unknown table [{}]{}", Shortened(table),
                            Suggestion("[", NearestName(table, tables), "]")));
      } else if (!known) {
        Problem(file_, key.source().begin,
                fmt::format("{} stands outside of any table{}", Shortened(table), SuggestKey("", table)));
      } else {
        CollectTable(table, *node.as_table());
      }
    }
  }

  void CollectTable(std::string_view table, const toml::table& fields) {
    for (const auto& [key, node] : fields) {
      const std::string full = fmt::format("{}.{}", table, key.str());
      if (FindField(full) == nullptr) {
        Problem(file_, key.source().begin,
                fmt::format("unknown field {}{}", Shortened(full), SuggestKey(table, key.str())));
        continue;
      }
      values_[full] = {&node, &file_};
    }
  }

  static std::string Suggestion(std::string_view before, std::string_view name, std::string_view after) {
    return name.empty() ? "" : fmt::format("; did you mean {}{}{}?", before, name, after);
  }

  // The nearest name of the same table, else of any.
  static std::string SuggestKey(std::string_view table, std::string_view name) {
    std::vector<std::string_view> same, all;
    for (const Field& field : Schema()) {
      if (field.table == table) same.push_back(field.name);
      all.push_back(field.name);
    }
    std::string_view nearest = NearestName(name, same);
    if (!nearest.empty()) return Suggestion(table, fmt::format(".{}", nearest), "");
    nearest = NearestName(name, all);
    for (const Field& field : Schema())
      if (field.name == nearest) return Suggestion("", field.key(), "");
    return "; `samestep recipe docs` lists all fields";
  }

  Status Override(const std::string& text) {
    const std::string name = "--set " + Shortened(text);
    const size_t equals = text.find('=');
    if (equals == std::string::npos)
      return UsageError("{}: expected --set table.field=value, such as --set train.steps=20", name);
    const std::string key = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    const Field* field = FindField(key);
    if (field == nullptr) {
      const size_t dot = key.find('.');
      const std::string_view table = dot == std::string::npos ? "" : std::string_view(key).substr(0, dot);
      return UsageError(
          "{}: unknown field {}{}", name, Shortened(key),
          SuggestKey(table, std::string_view(key).substr(dot == std::string::npos ? 0 : dot + 1)));
    }
    Document& document = overrides_.emplace_back();
    document.name = name;
    document.folder = ".";
    const bool is_text = !std::holds_alternative<IntegerSlot>(field->slot) &&
                         !std::holds_alternative<DecimalSlot>(field->slot) &&
                         !std::holds_alternative<BooleanSlot>(field->slot) &&
                         !std::holds_alternative<SourcesSlot>(field->slot);
    const bool quoted = !value.empty() && (value[0] == '"' || value[0] == '\'');
    document.text = "value = " + (is_text && !quoted ? Quote(value) : value);
    SAMESTEP_RETURN_IF_ERROR(ParseDocument(document));
    const toml::node* node = document.table.get("value");
    if (node == nullptr || document.table.size() != 1)
      return UsageError("{}: expected one value, {}", name, field->Expected());
    values_[key] = {node, &document};
    if (key == "data.path") values_.erase("data.sources");
    if (key == "data.sources") values_.erase("data.path");
    return {};
  }

  // Sets the field from what was given or from its default.
  void Fill(const Field& field) {
    if (const auto found = values_.find(field.key()); found != values_.end()) {
      const Given& value = found->second;
      given_.where[field.key()] = value.document->Where(value.node->source().begin);
      Assign(field, value);
    } else if (!field.fallback.empty()) {
      Document document;
      document.text = fmt::format("value = {}", field.fallback);
      SAMESTEP_CHECK(ParseDocument(document).ok());
      Assign(field, {document.table.get("value"), &document});
    } else if (field.required()) {
      problems_.push_back(
          {UINT32_MAX, fmt::format("{}: {} is missing from [{}]; expected {} ({})", file_.name, field.key(),
                                   field.table, field.Expected(), Lowered(field.documentation))});
    }
  }

  static std::string Lowered(std::string_view sentence) {
    std::string text(sentence.substr(0, sentence.find_first_of(".;")));
    if (text.size() > 1 && text[1] >= 'a' && text[1] <= 'z' && text[0] >= 'A' && text[0] <= 'Z')
      text[0] = static_cast<char>(text[0] - 'A' + 'a');
    return text;
  }

  void Assign(const Field& field, const Given& value) {
    std::visit([&](const auto& slot) { Assign(field, slot, value); }, field.slot);
  }

  void Assign(const Field& field, IntegerSlot slot, const Given& value) {
    const auto* integer = value.node->as_integer();
    if (integer == nullptr || !field.range.Contains(static_cast<double>(integer->get())))
      return WrongValue(field, value);
    slot(recipe_) = integer->get();
  }

  void Assign(const Field& field, DecimalSlot slot, const Given& value) {
    AssignDecimal(field, value, field.range, slot(recipe_));
  }

  bool AssignDecimal(const Field& field, const Given& value, const Range& range, Decimal& target) {
    // The parser keeps only the binary64 value, so the digits are taken from the source.
    const std::optional<double> parsed = value.node->value<double>();
    const bool number = value.node->is_integer() || value.node->is_floating_point();
    if (!number || !parsed) return WrongValue(field, value), false;
    const std::string_view source = value.document->From(value.node->source().begin);
    const Result<Decimal> decimal =
        Decimal::Parse(source.substr(0, source.find_first_not_of("0123456789+-._eE")));
    if (!decimal.ok() || decimal->ToDouble() != *parsed || !range.Contains(decimal->ToDouble()))
      return WrongValue(field, value), false;
    target = *decimal;
    return true;
  }

  void Assign(const Field& field, BooleanSlot slot, const Given& value) {
    const auto* boolean = value.node->as_boolean();
    if (boolean == nullptr) return WrongValue(field, value);
    slot(recipe_) = boolean->get();
  }

  void Assign(const Field& field, const ChoiceSlot& slot, const Given& value) {
    const auto* text = value.node->as_string();
    if (text == nullptr) return WrongValue(field, value);
    const auto found = std::find(slot.names.begin(), slot.names.end(), text->get());
    if (found == slot.names.end())
      return WrongValue(field, value, Suggestion("\"", NearestName(text->get(), slot.names), "\""));
    slot.set(recipe_, static_cast<int>(found - slot.names.begin()));
  }

  void Assign(const Field& field, const PathSlot& slot, const Given& value) {
    const auto* text = value.node->as_string();
    if (text == nullptr || text->get().find('\0') != std::string::npos) return WrongValue(field, value);
    const bool verbatim = text->get().empty() || (!slot.keyword.empty() && text->get() == slot.keyword);
    slot.get(recipe_) = verbatim ? text->get() : AbsolutePath(*value.document, text->get());
  }

  void Assign(const Field& field, SplitSlot, const Given& value) {
    const auto* text = value.node->as_string();
    if (text == nullptr) return WrongValue(field, value);
    std::vector<Decimal> shares;
    std::stringstream parts(text->get());
    double sum = 0;
    for (std::string part; std::getline(parts, part, ',');) {
      Result<Decimal> share = Decimal::Parse(part);
      if (!share.ok() || !(Range{0, 1e9}.Contains(share->ToDouble()))) return WrongValue(field, value);
      sum += share->ToDouble();
      shares.push_back(*share);
      if (shares.size() > 3) break;
    }
    if (shares.size() != 3 || text->get().back() == ',') return WrongValue(field, value);
    if (sum == 0 || shares[0].ToDouble() == 0)
      return WrongValue(field, value, "; the first share, of training, must be above 0");
    recipe_.data.split = std::move(shares);
  }

  void Assign(const Field& field, SourceSlot, const Given& value) {
    const auto* text = value.node->as_string();
    if (text == nullptr || !IsPath(text->get())) return WrongValue(field, value);
    if (values_.count("data.sources") > 0)
      return WrongValue(field, value, "; remove data.path or data.sources");
    recipe_.data.sources = {{AbsolutePath(*value.document, text->get()), Decimal::Of(1)}};
  }

  void Assign(const Field& field, SourcesSlot, const Given& value) {
    const auto* list = value.node->as_array();
    if (list == nullptr || list->empty() || list->size() > kMostSources) return WrongValue(field, value);
    for (const toml::node& item : *list) {
      const auto* source = item.as_table();
      const Given given{&item, value.document};
      if (source == nullptr || source->size() != 2) return WrongValue(field, given);
      const auto* path = source->get_as<std::string>("path");
      const toml::node* weight = source->get("weight");
      if (path == nullptr || !IsPath(path->get()) || weight == nullptr) return WrongValue(field, given);
      DataSource& added = recipe_.data.sources.emplace_back();
      added.path = AbsolutePath(*value.document, path->get());
      if (!AssignDecimal(field, {weight, value.document}, {0, 1e9, true}, added.weight)) return;
    }
  }

  static bool IsPath(const std::string& text) {
    return !text.empty() && text.find('\0') == std::string::npos;
  }

  static std::string AbsolutePath(const Document& document, const std::string& path) {
    std::error_code error;
    const auto joined = std::filesystem::path(document.folder.empty() ? "." : document.folder) / path;
    const auto absolute = std::filesystem::absolute(joined, error);
    return (error ? joined : absolute).lexically_normal().string();
  }

  void WrongValue(const Field& field, const Given& value, const std::string& hint = "") {
    const toml::source_position& begin = value.node->source().begin;
    std::string_view shown = value.document->From(begin);
    shown = shown.substr(0, shown.find_first_of("\r\n"));
    if (!value.node->is_table() && !value.node->is_array()) {
      const toml::source_position& end = value.node->source().end;
      if (end.line == begin.line && end.column > begin.column) {
        const std::string_view rest = value.document->From(end);
        shown =
            shown.substr(0, std::min<size_t>(shown.size(), static_cast<size_t>(rest.data() - shown.data())));
      }
    }
    Problem(*value.document, begin,
            fmt::format("{} is {} ({}); expected {}{}", field.key(), Shortened(shown),
                        TypeName(value.node->type()), field.Expected(), hint));
  }

  void Problem(const Document& document, const toml::source_position& at, const std::string& text) {
    problems_.push_back({document.is_file ? at.line : 0, fmt::format("{}: {}", document.Where(at), text)});
  }

  Status Problems() {
    std::stable_sort(problems_.begin(), problems_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (size_t i = 0; i < problems_.size() && i < kMostProblems; ++i)
      text += (i > 0 ? "\n" : "") + problems_[i].second;
    if (problems_.size() > kMostProblems)
      text += fmt::format("\n{}: and {} more", file_.name, problems_.size() - kMostProblems);
    return UsageError("{}", text);
  }

  Document file_;
  std::list<Document> overrides_;  // their addresses stay
  std::map<std::string, Given> values_;
  std::vector<std::pair<uint32_t, std::string>> problems_;  // by line
  GivenFields given_;
  Recipe recipe_;
};

}  // namespace

Result<Recipe> ParseRecipe(std::string_view text, const std::string& name, const std::string& folder,
                           const std::vector<std::string>& overrides) {
  if (text.size() > kLargestRecipe)
    return UsageError("{}: {} bytes; a recipe has at most {}: is this another file?", name, text.size(),
                      kLargestRecipe);
  return Loader(name, folder).Load(text, overrides);
}

Result<Recipe> LoadRecipe(const std::string& path, const std::vector<std::string>& overrides) {
  SAMESTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kLargestRecipe));
  return ParseRecipe(text, path, std::filesystem::path(path).parent_path().string(), overrides);
}

}  // namespace samestep
