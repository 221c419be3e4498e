// gradient_sum.h: the gradient of one parameter, summed over tokens, lanes and micro-batches in the written
// order.
//
//   sum.Begin();                                             // of a step
//   TokenSum order = sum.Order(tokens, 0);
//   LinearBackwardWeights(src, diff_dst, sum.Accumulator(), order);
//   sum.Advance(order, rows);
//   if (segment.ends_lane) sum.FinishLane();                 // the last sample of a data lane is in
//   TensorView gradient = sum.Finish();
//
// Each data lane has one accumulator a token lane. A finished data lane is merged into the balanced tree at
// once, so that at most 1 + ceil(log2(data lanes)) buffers exist.
//
// Determinism: the order of numerics page 1.1 (token sum, lanes and tree), for every micro-batch size.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/token_sum.h"

namespace samestep {

class GradientSum {
 public:
  GradientSum() = default;
  GradientSum(const Shape& shape, int token_lanes, int data_lanes);

  void Begin();
  TokenSum Order(int64_t tokens, int64_t first_token) const;
  // [token_lanes, shape]; a partial of the current data lane.
  TensorView Accumulator();
  void Advance(const TokenSum& order, int64_t rows);
  void FinishLane();
  // After the last data lane: the whole gradient. Valid until Begin.
  TensorView Finish();

 private:
  struct Partial {
    Tensor tensor;
    int level = 0;
    int32_t lane_begin = 0, lane_end = 0;
  };
  Tensor TakeBuffer();
  TensorView ViewOfPartial(const Partial& partial) const;
  void MergeTopTwo();

  Shape shape_;
  int token_lanes_ = 1, data_lanes_ = 1;
  uint64_t lanes_set_ = 0;
  int32_t finished_lanes_ = 0;
  Tensor token_lane_accumulators_;  // with several token lanes
  Tensor current_;                  // with one: the current data lane's accumulator
  std::vector<Partial> tree_;       // finished subtrees, left to right, levels descending
  std::vector<Tensor> free_;
};

}  // namespace samestep
