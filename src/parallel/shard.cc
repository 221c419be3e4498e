#include "parallel/shard.h"

#include <algorithm>

namespace samestep {

Shard Shard::RowRanges(const Shape& global, const std::vector<Range>& rows) {
  Shard shard;
  shard.global = global;
  shard.columns = {0, global.rank() == 2 ? global[1] : 1};
  int64_t local = 0;
  for (const Range& r : rows) {
    SAMESTEP_CHECK(r.first >= 0 && r.count >= 0 && r.end() <= global[0]);
    shard.boxes.push_back({local, r.count, r.first});
    local += r.count;
  }
  return shard;
}

Shard Shard::Whole(const Shape& global) { return Rows(global, {0, global[0]}); }
Shard Shard::Rows(const Shape& global, const Range& rows) { return RowRanges(global, {rows}); }

Shard Shard::Columns(const Shape& global, const Range& columns) {
  SAMESTEP_CHECK_EQ(global.rank(), 2);
  Shard shard = Whole(global);
  shard.columns = columns;
  return shard;
}

int64_t Shard::local_rows() const {
  int64_t rows = 0;
  for (const ShardBox& b : boxes) rows += b.rows;
  return rows;
}

Shape Shard::local_shape() const {
  return global.rank() == 1 ? Shape{local_rows()} : Shape{local_rows(), columns.count};
}

TensorView Shard::View(const TensorView& local, size_t i) const {
  const ShardBox& box = boxes.at(i);
  const TensorView rows = local.Slice(box.local_row, box.rows);
  return rows.Within(global,
                     global.rank() == 1 ? Shape{box.global_row} : Shape{box.global_row, columns.first});
}

TensorView Shard::View(const TensorView& local) const {
  SAMESTEP_CHECK_EQ(boxes.size(), size_t{1});
  return View(local, 0);
}

Shard Shard::Part(const Range& rows) const {
  Shard part;
  part.global = global;
  part.columns = columns;
  int64_t local = 0;
  for (const ShardBox& b : boxes) {
    const int64_t begin = std::max(b.local_row, rows.first), end = std::min(b.local_row + b.rows, rows.end());
    if (begin >= end) continue;
    part.boxes.push_back({local, end - begin, b.global_row + begin - b.local_row});
    local += end - begin;
  }
  return part;
}

TensorView AsColumns(const TensorView& view, int64_t global, int64_t first) {
  TensorView part = view;
  const int last = view.shape.rank() - 1;
  part.global_shape[last] = global;
  part.offsets[last] = first;
  return part;
}

}  // namespace samestep
