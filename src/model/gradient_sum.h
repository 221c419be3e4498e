// gradient_sum.h: this rank's part of the gradient of one parameter, summed over its tokens, lanes and
// micro-batches in the written order.
//
//   sum.Begin();                                             // of a step
//   TokenSum order = sum.Order(tokens, 0);
//   LinearBackwardWeights(src, diff_dst, sum.Accumulator(), order);
//   sum.Advance(order, rows);
//   if (segment.ends_lane) sum.FinishLane();                 // the last sample of a data lane is in
//   TensorView gradient = sum.Finish();                      // over the data lanes of this rank
//
// Each data lane has one accumulator a token lane. A finished data lane is merged into the balanced tree at
// once, so that at most 1 + ceil(log2(data lanes)) buffers exist. A parameter that tensor ranks hold as
// replicas has its token lanes on all of them: there the lanes are kept until Finish, which completes the
// tree over token lanes between the ranks before data lanes are merged.
//
// Determinism: the order of numerics page 1.1 (token sum, lanes and tree), for every micro-batch size and
// layout.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "kernels/token_sum.h"
#include "parallel/shard.h"

namespace samestep {

// Consecutive lanes of `total`.
struct LaneRange {
  int first = 0, count = 1, total = 1;
};

class GradientSum {
 public:
  GradientSum() = default;
  // `replicas`: the tensor group, where its ranks hold the parameter as replicas; else null.
  GradientSum(const Shard& shard, const LaneRange& token_lanes, const LaneRange& data_lanes,
              Communicator* replicas = nullptr);

  void Begin();
  TokenSum Order(int64_t tokens, int64_t first_token) const;
  // [token_lanes, rows of the box, ...]; a partial of the current data lane.
  TensorView Accumulator(size_t box = 0);
  void Advance(const TokenSum& order, int64_t rows);
  void FinishLane();
  // After the last data lane of this rank. Memory of the shard, valid until Begin.
  TensorView Finish();

 private:
  struct Partial {
    Tensor tensor;
    int level = 0;
    int32_t lane_begin = 0, lane_end = 0;
  };
  Tensor TakeBuffer();
  TensorView ViewOfPartial(const Partial& partial, size_t box) const;
  void Push(Partial lane);
  void MergeTopTwo();
  void MergeAll();
  TensorView FinishReplicas();

  Shard shard_;
  Shard merged_;  // what a Partial holds: the shard, or this rank's rows of a replica
  LaneRange token_lanes_, data_lanes_;
  Communicator* replicas_ = nullptr;
  uint64_t lanes_set_ = 0;
  int32_t finished_lanes_ = 0;
  Tensor token_lane_accumulators_;  // with several token lanes
  Tensor current_;                  // with one: the current data lane's accumulator
  std::vector<Partial> tree_;       // finished subtrees, left to right, levels descending
  std::vector<Tensor> lanes_;       // of a replica: finished data lanes, over this rank's token lanes
  std::vector<Tensor> free_;
  Tensor whole_;  // of a replica: the result
};

}  // namespace samestep
