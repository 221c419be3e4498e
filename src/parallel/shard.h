// shard.h: which part of a logical tensor the memory of this rank holds.
//
//   Shard w = Shard::Rows({256, 64}, {128, 128});               // rows 128 to 255 of [256, 64]
//   Tensor memory = Tensor::Empty(w.local_shape());
//   for (size_t i = 0; i < w.boxes.size(); ++i) Use(w.View(memory.view(), i));   // a box of the logical
//   tensor
//
// A shard is one or several ranges of rows (first dimension), of all columns or of one range of them. The
// fused projection q, k, v of a tensor rank has three: its heads of each.
//
// Determinism: integers.
#pragma once

#include <vector>

#include "parallel/layout.h"
#include "tensor/tensor.h"

namespace samestep {

struct ShardBox {
  int64_t local_row = 0, rows = 0, global_row = 0;
};

struct Shard {
  Shape global;                 // of the logical tensor, rank 1 or 2
  std::vector<ShardBox> boxes;  // in the order of memory
  Range columns;                // of the logical tensor; unused for rank 1

  static Shard Whole(const Shape& global);
  static Shard Rows(const Shape& global, const Range& rows);
  static Shard RowRanges(const Shape& global, const std::vector<Range>& rows);
  static Shard Columns(const Shape& global, const Range& columns);

  int64_t local_rows() const;
  Shape local_shape() const;
  int64_t elements() const { return local_shape().elements(); }
  // Rows of memory that hold box `i`, at their place in the logical tensor. `local` is [rows, columns] (or
  // [rows]) of this shard.
  TensorView View(const TensorView& local, size_t i) const;
  // The same of the only box.
  TensorView View(const TensorView& local) const;
  // The part that local rows [rows.first, rows.end()) are; its memory begins at the first of them.
  Shard Part(const Range& rows) const;
};

// `view` as columns [first, first + its own) of a logical tensor of `global` columns.
TensorView AsColumns(const TensorView& view, int64_t global, int64_t first);

}  // namespace samestep
