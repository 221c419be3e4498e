#include "recipe/nearest.h"

#include <algorithm>
#include <numeric>

namespace samestep {
namespace {

constexpr size_t kLongestName = 64;  // nobody mistypes a longer one, and the table is quadratic

// Insertions, deletions, replacements and exchanges of neighbours, each counted as one.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  std::iota(distance[0].begin(), distance[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    distance[i][0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& candidates) {
  std::string_view nearest;
  size_t least = 0;
  if (name.size() > kLongestName) return nearest;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (3 * distance > std::max(name.size(), candidate.size())) continue;
    if (!nearest.empty() && distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

}  // namespace samestep
