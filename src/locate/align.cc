#include "locate/align.h"

#include <algorithm>
#include <cstddef>

namespace samestep {
namespace {

// Edits beyond which sequences count as unlike: bounds time and memory (a row of each is kept).
constexpr int64_t kMaxEdits = 4000;

struct Middle {
  const int64_t* a;
  const int64_t* b;
  int64_t n, m, offset;
};

// The furthest x of each diagonal k = x - y after 0, 1, … edits; empty if more than kMaxEdits are needed.
std::vector<std::vector<int64_t>> FurthestRows(const Middle& s) {
  std::vector<std::vector<int64_t>> rows;
  std::vector<int64_t> before;
  for (int64_t d = 0; d <= std::min(s.n + s.m, kMaxEdits); ++d) {
    std::vector<int64_t> row(static_cast<size_t>(2 * d + 1));
    const auto at = [&](int64_t k) { return before[static_cast<size_t>(k + d - 1)]; };
    for (int64_t k = -d; k <= d; k += 2) {
      int64_t x = 0;
      if (d > 0) x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      int64_t y = x - k;
      while (x < s.n && y < s.m && s.a[x] == s.b[y]) ++x, ++y;
      row[static_cast<size_t>(k + d)] = x;
      if (x >= s.n && y >= s.m) {
        rows.push_back(std::move(row));
        return rows;
      }
    }
    rows.push_back(row);
    before = std::move(row);
  }
  return {};
}

std::vector<Step> Apart(const Middle& s) {
  std::vector<Step> steps;
  for (int64_t x = 0; x < s.n; ++x) steps.push_back({s.offset + x, -1});
  for (int64_t y = 0; y < s.m; ++y) steps.push_back({-1, s.offset + y});
  return steps;
}

std::vector<Step> AlignMiddle(const Middle& s) {
  const auto rows = FurthestRows(s);
  if (rows.empty()) return Apart(s);
  std::vector<Step> steps;
  int64_t x = s.n, y = s.m;
  for (int64_t d = static_cast<int64_t>(rows.size()) - 1; d >= 0; --d) {
    const int64_t k = x - y;
    int64_t from_x = 0, from_y = 0;
    if (d > 0) {
      const auto& before = rows[static_cast<size_t>(d - 1)];
      const auto at = [&](int64_t i) { return before[static_cast<size_t>(i + d - 1)]; };
      const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
      from_x = at(down ? k + 1 : k - 1);
      from_y = from_x - (down ? k + 1 : k - 1);
    }
    while (x > from_x && y > from_y) {
      --x, --y;
      steps.push_back({s.offset + x, s.offset + y});
    }
    if (d == 0) break;
    if (x > from_x) {
      steps.push_back({s.offset + --x, -1});
    } else {
      steps.push_back({-1, s.offset + --y});
    }
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

}  // namespace

std::vector<Step> Align(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto n = static_cast<int64_t>(a.size()), m = static_cast<int64_t>(b.size());
  int64_t head = 0, tail = 0;
  while (head < std::min(n, m) && a[static_cast<size_t>(head)] == b[static_cast<size_t>(head)]) ++head;
  while (tail < std::min(n, m) - head &&
         a[static_cast<size_t>(n - 1 - tail)] == b[static_cast<size_t>(m - 1 - tail)]) {
    ++tail;
  }
  std::vector<Step> steps;
  for (int64_t i = 0; i < head; ++i) steps.push_back({i, i});
  for (const Step& s :
       AlignMiddle({a.data() + head, b.data() + head, n - head - tail, m - head - tail, head})) {
    steps.push_back(s);
  }
  for (int64_t i = tail; i > 0; --i) steps.push_back({n - i, m - i});
  return steps;
}

}  // namespace samestep
