#include "model/gradient_sum.h"

#include "kernels/sum/sum.h"

namespace samestep {

GradientSum::GradientSum(const Shape& shape, int token_lanes, int data_lanes)
    : shape_(shape), token_lanes_(token_lanes), data_lanes_(data_lanes) {}

Tensor GradientSum::TakeBuffer() {
  if (free_.empty()) return Tensor::Empty(shape_);
  Tensor buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void GradientSum::Begin() {
  for (Partial& p : tree_) free_.push_back(std::move(p.tensor));
  tree_.clear();
  lanes_set_ = 0;
  finished_lanes_ = 0;
}

TokenSum GradientSum::Order(int64_t tokens, int64_t first_token) const {
  return {tokens, first_token, token_lanes_, lanes_set_};
}

TensorView GradientSum::Accumulator() {
  Shape shape{token_lanes_};
  for (int i = 0; i < shape_.rank(); ++i) shape.Append(shape_[i]);
  Tensor* memory = &token_lane_accumulators_;
  if (token_lanes_ == 1) {
    memory = &current_;
    if (current_.empty()) current_ = TakeBuffer();
  } else if (token_lane_accumulators_.empty()) {
    token_lane_accumulators_ = Tensor::Empty(shape);
  }
  return memory->view().Reshaped(shape).AsPartial(finished_lanes_, finished_lanes_ + 1, data_lanes_);
}

void GradientSum::Advance(const TokenSum& order, int64_t rows) { lanes_set_ = LanesSetAfter(order, rows); }

TensorView GradientSum::ViewOfPartial(const Partial& partial) const {
  return partial.tensor.view().AsPartial(partial.lane_begin, partial.lane_end, data_lanes_);
}

void GradientSum::MergeTopTwo() {
  ScopedPhase phase(Phase::kReduce);
  Partial right = std::move(tree_.back());
  tree_.pop_back();
  Partial& left = tree_.back();
  const TensorView left_view = ViewOfPartial(left);
  left.lane_end = right.lane_end;
  ++left.level;
  Add(left_view, ViewOfPartial(right), ViewOfPartial(left));
  free_.push_back(std::move(right.tensor));
}

void GradientSum::FinishLane() {
  SAMESTEP_CHECK_LT(finished_lanes_, data_lanes_);
  Partial lane;
  lane.lane_begin = finished_lanes_;
  lane.lane_end = ++finished_lanes_;
  if (token_lanes_ == 1) {
    lane.tensor = std::move(current_);
    current_ = Tensor();
  } else {
    ScopedPhase phase(Phase::kReduce);
    lane.tensor = TakeBuffer();
    SumTree(token_lane_accumulators_.view().AsPartial(lane.lane_begin, lane.lane_end, data_lanes_),
            ViewOfPartial(lane));
  }
  lanes_set_ = 0;
  tree_.push_back(std::move(lane));
  // Two neighbouring subtrees of one level are a finished subtree of the next.
  while (tree_.size() >= 2 && tree_[tree_.size() - 2].level == tree_.back().level) MergeTopTwo();
}

TensorView GradientSum::Finish() {
  SAMESTEP_CHECK_EQ(finished_lanes_, data_lanes_);
  // What is left are odd ones out, which moved up unchanged until their left neighbour was ready.
  while (tree_.size() >= 2) MergeTopTwo();
  return tree_.front().tensor.view();
}

}  // namespace samestep
