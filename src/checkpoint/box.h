// box.h: parts of a logical tensor: where they lie, whether they tile it, and copying what two of them share.
//
//   const Box part = BoxOf(view);                            // or BoxOf(offsets, shape)
//   if (const std::string fault = TilingFault(shape, {a, b}); !fault.empty()) ...    // "rows 2 to 4 ...
//   twice" CopyShared(part, mapped_bytes, wanted, memory);
//
// A tensor of one dimension is one row.
//
// Determinism: integers and moved bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace samestep {

struct Box {
  int64_t row = 0, rows = 1, column = 0, columns = 1;
  int64_t row_end() const { return row + rows; }
  int64_t column_end() const { return column + columns; }
  int64_t elements() const { return rows * columns; }
  bool operator==(const Box&) const = default;
};

// Of one or two dimensions.
Box BoxOf(const Shape& offsets, const Shape& shape);
Box BoxOf(const TensorView& view);
Box WholeBox(const Shape& shape);
// What two boxes share; without elements if that is nothing.
Box Shared(const Box& a, const Box& b);

// What keeps the boxes from covering a tensor exactly once, in words; empty if nothing does.
std::string TilingFault(const Shape& shape, const std::vector<Box>& boxes);

// Copies the f32 elements that both boxes hold, run by run; each box is stored contiguously, at any
// alignment. Returns how many there are.
int64_t CopyShared(const Box& from, const std::byte* source, const Box& to, std::byte* target);

}  // namespace samestep
