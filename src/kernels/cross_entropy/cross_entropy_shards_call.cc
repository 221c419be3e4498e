#include "kernels/cross_entropy/cross_entropy_shards_call.h"

namespace samestep {
namespace {

float* RowValues(const TensorView& view, int64_t rows) {
  SAMESTEP_CHECK_EQ(view.elements(), rows);
  return view.f32();
}

// Of [shards, rows].
float* ShardValues(const TensorView& view, int64_t shards, int64_t rows) {
  SAMESTEP_CHECK_EQ(view.shape[0], shards);
  return RowValues(view, shards * rows);
}

}  // namespace

ShardRows::ShardRows(const Call& call)
    : logits(call.view(0).f32()),
      targets(call.view(1).i32()),
      rows(call.view(1).elements()),
      columns(call.view(0).columns()),
      stride(call.view(0).row_stride()),
      first_column(call.Integer("first_column")),
      vocab(call.Integer("vocab")) {
  SAMESTEP_CHECK_EQ(call.view(0).elements(), rows * columns);
  SAMESTEP_CHECK(columns == 0 || first_column + columns <= vocab);
}

int32_t ShardRows::Target(int64_t row) const {
  const int32_t target = targets[row];
  SAMESTEP_CHECK(target >= -1 && target < vocab);
  return target;
}

int64_t ShardRows::Column(int32_t target) const {
  const int64_t column = target - first_column;
  return target >= 0 && column >= 0 && column < columns ? column : -1;
}

CrossEntropySumArguments::CrossEntropySumArguments(const Call& call)
    : ShardRows(call),
      row_max(RowValues(call.view(3), rows)),
      lane_sum(RowValues(call.view(4), rows)),
      target_logit(RowValues(call.view(5), rows)),
      shards(call.view(2).shape[0]),
      lane_size(call.Integer("vocab_lane_size")),
      lanes(call.Integer("tensor_lanes")),
      want_gradient(call.Integer("want_gradient") != 0) {
  maxima = ShardValues(call.view(2), shards, rows);
  SAMESTEP_CHECK(shards >= 1 && lanes >= 1);
  SAMESTEP_CHECK_LE(columns, lane_size * lanes);
}

CrossEntropyLossArguments::CrossEntropyLossArguments(const Call& call)
    : ShardRows(call),
      row_max(RowValues(call.view(2), rows)),
      loss(RowValues(call.view(5), rows)),
      row_sum(RowValues(call.view(6), rows)),
      shards(call.view(3).shape[0]),
      shard_columns(call.Integer("shard_columns")),
      weight(call.Real("weight")),
      want_gradient(call.Integer("want_gradient") != 0) {
  lane_sums = ShardValues(call.view(3), shards, rows);
  target_logits = ShardValues(call.view(4), shards, rows);
  SAMESTEP_CHECK_LE(columns, shard_columns);
  SAMESTEP_CHECK_LE(vocab, shards * shard_columns);
}

float CrossEntropyLossArguments::TargetLogit(int32_t target, int64_t row) const {
  return target_logits[target / shard_columns * rows + row];
}

}  // namespace samestep
