#include "checkpoint/box.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace samestep {
namespace {

std::string Describe(const Box& b) {
  return fmt::format("[{}, {}) x [{}, {})", b.row, b.row_end(), b.column, b.column_end());
}

bool IsInside(const Box& inner, const Box& outer) { return Shared(inner, outer) == inner; }

// Column intervals of the boxes that a line of constant row crosses, by their first column. Disjoint.
class Crossed {
 public:
  // The box that overlaps with it, or null if it could be entered.
  const Box* Enter(const Box* box) {
    const auto after = by_column_.lower_bound(box->column);
    if (after != by_column_.end() && after->first < box->column_end()) return after->second;
    if (after != by_column_.begin() && std::prev(after)->second->column_end() > box->column) {
      return std::prev(after)->second;
    }
    by_column_.emplace(box->column, box);
    return nullptr;
  }
  void Leave(const Box* box) { by_column_.erase(box->column); }

 private:
  std::map<int64_t, const Box*> by_column_;
};

// Two boxes that overlap, in words. A line sweeps over the rows, so that thousands of boxes take no time.
std::string OverlapOf(const std::vector<Box>& boxes) {
  std::vector<const Box*> enter, leave;
  for (const Box& box : boxes) enter.push_back(&box);
  leave = enter;
  std::sort(enter.begin(), enter.end(), [](const Box* a, const Box* b) { return a->row < b->row; });
  std::sort(leave.begin(), leave.end(),
            [](const Box* a, const Box* b) { return a->row_end() < b->row_end(); });
  Crossed crossed;
  size_t left = 0;
  for (const Box* box : enter) {
    while (leave[left]->row_end() <= box->row) crossed.Leave(leave[left++]);
    if (const Box* other = crossed.Enter(box); other != nullptr) {
      return fmt::format("parts {} and {} overlap", Describe(*other), Describe(*box));
    }
  }
  return "";
}

}  // namespace

Box BoxOf(const Shape& offsets, const Shape& shape) {
  SAMESTEP_CHECK(shape.rank() == 1 || shape.rank() == 2);
  SAMESTEP_CHECK_EQ(offsets.rank(), shape.rank());
  if (shape.rank() == 1) return {0, 1, offsets[0], shape[0]};
  return {offsets[0], shape[0], offsets[1], shape[1]};
}

Box BoxOf(const TensorView& view) { return BoxOf(view.offsets, view.shape); }

Box WholeBox(const Shape& shape) {
  SAMESTEP_CHECK(shape.rank() == 1 || shape.rank() == 2);
  return shape.rank() == 1 ? Box{0, 1, 0, shape[0]} : Box{0, shape[0], 0, shape[1]};
}

Box Shared(const Box& a, const Box& b) {
  Box shared{std::max(a.row, b.row), 0, std::max(a.column, b.column), 0};
  shared.rows = std::max<int64_t>(0, std::min(a.row_end(), b.row_end()) - shared.row);
  shared.columns = std::max<int64_t>(0, std::min(a.column_end(), b.column_end()) - shared.column);
  return shared;
}

std::string TilingFault(const Shape& shape, const std::vector<Box>& boxes) {
  const Box whole = WholeBox(shape);
  for (const Box& box : boxes) {
    if (box.rows == 0 || box.columns == 0 || !IsInside(box, whole)) {
      return fmt::format("part {} is empty or not inside of the shape {}", Describe(box), shape.ToString());
    }
  }
  if (std::string overlap = OverlapOf(boxes); !overlap.empty()) return overlap;
  int64_t held = 0;
  for (const Box& box : boxes) held += box.elements();
  if (held != whole.elements()) {
    return fmt::format("the parts hold {} of the {} elements of shape {}", held, whole.elements(),
                       shape.ToString());
  }
  return "";
}

int64_t CopyShared(const Box& from, const std::byte* source, const Box& to, std::byte* target) {
  const Box shared = Shared(from, to);
  const auto at = [&shared](const Box& box, int64_t row) {
    return sizeof(float) * static_cast<size_t>((row - box.row) * box.columns + shared.column - box.column);
  };
  // Rows that are whole on both sides are one run.
  const bool joined = shared.columns == from.columns && shared.columns == to.columns;
  const int64_t runs = shared.elements() == 0 ? 0 : joined ? 1 : shared.rows;
  const size_t bytes = sizeof(float) * static_cast<size_t>(joined ? shared.elements() : shared.columns);
  for (int64_t row = shared.row; row < shared.row + runs; ++row) {
    std::memcpy(target + at(to, row), source + at(from, row), bytes);
  }
  return shared.elements();
}

}  // namespace samestep
