#include "trace/selection.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

namespace samestep {
namespace {

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return {};
  return value;
}

}  // namespace

Result<Selection> Selection::Parse(std::string_view text, std::string_view source) {
  Selection selection;
  if (text == "all") return selection;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t dash = part.find_first_of("-:");
    const auto first = Number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : Number(part.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return UsageError("{}: \"{}\" in \"{}\"; expected all, a number, or ranges such as 1-3,8 or 100:110",
                        source, part, text);
    }
    selection.ranges_.emplace_back(*first, *last);
    if (comma == std::string_view::npos) return selection;
    rest.remove_prefix(comma + 1);
  }
}

bool Selection::Has(int64_t number) const {
  return all() || std::any_of(ranges_.begin(), ranges_.end(), [&](const auto& range) {
           return number >= range.first && number <= range.second;
         });
}

int64_t Selection::last() const {
  int64_t last = all() ? std::numeric_limits<int64_t>::max() : 0;
  for (const auto& range : ranges_) last = std::max(last, range.second);
  return last;
}

std::string Selection::ToString() const {
  if (all()) return "all";
  std::string text;
  for (const auto& [first, last] : ranges_) {
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

}  // namespace samestep
