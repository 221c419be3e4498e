#include "faults/reordered_call.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "kernels/token_sum.h"
#include "numerics/sums.h"

namespace samestep {
namespace {

enum class Axis {
  kFeatures,  // columns, in blocks of 256
  kHeads,     // columns, in heads
  kOutputs,   // rows, in blocks of 256
  kTokens,    // rows, in the blocks of a token sum
};

struct SummedAxis {
  std::string_view kernel;
  Axis axis;
  std::vector<std::string_view> roles;
};

// Each kernel's arguments that have the summed dimension; outputs that have it are turned back.
const std::vector<SummedAxis>& SummedAxes() {
  static const std::vector<SummedAxis> table = {
      {"linear.forward", Axis::kFeatures, {"src", "weights"}},
      {"linear.backward_data", Axis::kFeatures, {"diff_dst0", "diff_dst1", "diff_dst2"}},
      {"linear.backward_data", Axis::kOutputs, {"weights0", "weights1", "weights2"}},
      {"linear.backward_weights", Axis::kTokens, {"src", "diff_dst"}},
      {"bias.backward", Axis::kTokens, {"diff_dst"}},
      {"rms_norm.forward", Axis::kFeatures, {"src", "gain", "dst"}},
      {"rms_norm.backward", Axis::kFeatures, {"src", "gain", "diff_dst", "diff_skip", "diff_src"}},
      {"rms_norm.backward_gain", Axis::kTokens, {"src", "rstd", "diff_dst"}},
      {"layer_norm.forward", Axis::kFeatures, {"src", "gain", "bias", "dst"}},
      {"layer_norm.backward", Axis::kFeatures, {"src", "gain", "diff_dst", "diff_skip", "diff_src"}},
      {"layer_norm.backward_parameters", Axis::kTokens, {"src", "mean", "rstd", "diff_dst"}},
      {"attention.forward", Axis::kHeads, {"q", "k"}},
      {"attention.backward", Axis::kHeads, {"q", "k", "v", "dst", "diff_dst", "diff_q", "diff_k", "diff_v"}},
  };
  return table;
}

// Each block of [0, extent) with its odd places first, then its even ones.
std::vector<int64_t> ReorderedBlocks(int64_t extent, int64_t block) {
  std::vector<int64_t> order;
  for (int64_t begin = 0; begin < extent; begin += block) {
    const int64_t end = std::min(extent, begin + block);
    for (int64_t i = begin + 1; i < end; i += 2) order.push_back(i);
    for (int64_t i = begin; i < end; i += 2) order.push_back(i);
  }
  return order;
}

std::vector<int64_t> ReorderedTokens(const Call& call, int64_t rows) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  for (const TokenBlock& block : TokenBlocks(GetTokenSum(call), rows)) {
    const std::vector<int64_t> places = ReorderedBlocks(block.count, block.count);
    for (int64_t i = 0; i < block.count; ++i) {
      order[static_cast<size_t>(block.row + i)] = block.row + places[static_cast<size_t>(i)];
    }
  }
  return order;
}

std::vector<int64_t> InOrder(int64_t extent) { return ReorderedBlocks(extent, 1); }

// An argument as rows of elements. A vector has one row, or where its entries belong to tokens one column.
struct Matrix {
  Matrix(const TensorView& view, bool entries_are_rows)
      : data(static_cast<std::byte*>(view.data)),
        element(BitsOf(view.dtype) / 8),
        rows(entries_are_rows ? view.elements() : view.rows()),
        columns(entries_are_rows ? 1 : view.columns()),
        stride(entries_are_rows ? 1 : view.row_stride()) {}
  std::byte* At(int64_t row, int64_t column) const { return data + (row * stride + column) * element; }
  std::byte* data;
  int64_t element, rows, columns, stride;
};

void Copy(const Matrix& from, int64_t from_row, int64_t from_column, const Matrix& to, int64_t row,
          int64_t column) {
  std::memcpy(to.At(row, column), from.At(from_row, from_column), static_cast<size_t>(from.element));
}

}  // namespace

bool CanReorder(const Kernel& kernel) {
  return std::any_of(SummedAxes().begin(), SummedAxes().end(),
                     [&](const SummedAxis& r) { return r.kernel == kernel.name; });
}

ReorderedCall::ReorderedCall(const Call& call) : call_(call.kernel()) {
  for (int i = 0; i < call.argument_count(); ++i) {
    const Argument& argument = call.argument(i);
    copies_.emplace_back();
    columns_.emplace_back();
    if (!argument.view.present()) {
      call_.Add(argument.view, argument.access);
      continue;
    }
    bool token_entries = false;  // a vector with one entry a token
    std::vector<int64_t> columns, rows;
    for (const SummedAxis& r : SummedAxes()) {
      const std::string_view role = call.kernel().arguments[static_cast<size_t>(i)].role;
      if (r.kernel != call.kernel().name) continue;
      if (std::find(r.roles.begin(), r.roles.end(), role) == r.roles.end()) continue;
      if (r.axis == Axis::kFeatures) columns = ReorderedBlocks(argument.view.columns(), kChainBlock);
      if (r.axis == Axis::kHeads)
        columns = ReorderedBlocks(argument.view.columns(), call.Integer("head_size"));
      if (r.axis == Axis::kOutputs) rows = ReorderedBlocks(argument.view.rows(), kChainBlock);
      if (r.axis == Axis::kTokens) {
        const int64_t tokens = call.view(0).rows();
        token_entries = argument.view.elements() == tokens;
        rows = ReorderedTokens(call, tokens);
      }
    }
    const Matrix from(argument.view, token_entries);
    if (columns.empty()) columns = InOrder(from.columns);
    if (rows.empty()) rows = InOrder(from.rows);
    copies_.back() = Tensor::Empty(argument.view.shape, argument.view.dtype);
    const Matrix to(copies_.back().view(), token_entries);
    for (int64_t row = 0; row < to.rows; ++row) {
      for (int64_t c = 0; c < to.columns; ++c) {
        Copy(from, rows[static_cast<size_t>(row)], columns[static_cast<size_t>(c)], to, row, c);
      }
    }
    columns_.back() = std::move(columns);
    call_.Add(copies_.back().view(), argument.access);
  }
  for (int i = 0; i < call.attribute_count(); ++i) {
    const Attribute& a = call.attribute(i);
    a.is_float ? call_.Set(a.name, a.real) : call_.Set(a.name, a.integer);
  }
}

void ReorderedCall::Execute() const { samestep::Execute(call_); }

void ReorderedCall::CopyRow(int argument, int64_t row, const TensorView& to) const {
  const Matrix copy(call_.view(argument), false), original(to, false);
  const std::vector<int64_t>& columns = columns_[static_cast<size_t>(argument)];
  for (int64_t c = 0; c < copy.columns; ++c) {
    Copy(copy, row, c, original, row, columns[static_cast<size_t>(c)]);
  }
}

}  // namespace samestep
