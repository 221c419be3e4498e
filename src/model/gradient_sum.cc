#include "model/gradient_sum.h"

#include <cstring>

#include "kernels/sum/sum.h"
#include "parallel/exchange.h"

namespace samestep {
namespace {

constexpr int kReplicaTag = 3;

}  // namespace

GradientSum::GradientSum(const Shard& shard, const LaneRange& token_lanes, const LaneRange& data_lanes,
                         Communicator* replicas)
    : shard_(shard), merged_(shard), token_lanes_(token_lanes), data_lanes_(data_lanes), replicas_(replicas) {
  if (replicas_ != nullptr) {
    merged_ = shard_.Part(PartOf(shard_.local_rows(), replicas_->size(), replicas_->rank()));
  }
}

Tensor GradientSum::TakeBuffer() {
  if (free_.empty()) return Tensor::Empty(shard_.local_shape());
  Tensor buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void GradientSum::Begin() {
  if (replicas_ == nullptr) {
    for (Partial& p : tree_) free_.push_back(std::move(p.tensor));
  }
  for (Tensor& lane : lanes_) free_.push_back(std::move(lane));
  tree_.clear();
  lanes_.clear();
  lanes_set_ = 0;
  finished_lanes_ = 0;
}

TokenSum GradientSum::Order(int64_t tokens, int64_t first_token) const {
  return {tokens, first_token, token_lanes_.count, lanes_set_};
}

TensorView GradientSum::Accumulator(size_t box) {
  const auto with_lanes = [](int64_t lanes, const Shape& shape) {
    Shape all{lanes};
    for (int i = 0; i < shape.rank(); ++i) all.Append(shape[i]);
    return all;
  };
  const Shape shape = with_lanes(token_lanes_.count, shard_.local_shape());
  Tensor* memory = &token_lane_accumulators_;
  if (token_lanes_.count == 1) {
    memory = &current_;
    if (current_.empty()) current_ = TakeBuffer();
  } else if (token_lane_accumulators_.empty()) {
    token_lane_accumulators_ = Tensor::Empty(shape);
  }
  // A box is a range of rows in every token lane.
  const TensorView place =
      shard_.View(memory->view().Reshaped(shape).Slice(0, 1).Reshaped(shard_.local_shape()), box);
  TensorView view = memory->view().Reshaped(shape);
  view.data = place.data;
  view.shape[1] = place.shape[0];
  view.global_shape = with_lanes(token_lanes_.total, shard_.global);
  view.offsets = with_lanes(token_lanes_.first, place.offsets);
  const int32_t lane = data_lanes_.first + finished_lanes_;
  return view.AsPartial(lane, lane + 1, data_lanes_.total);
}

void GradientSum::Advance(const TokenSum& order, int64_t rows) { lanes_set_ = LanesSetAfter(order, rows); }

TensorView GradientSum::ViewOfPartial(const Partial& partial, size_t box) const {
  return merged_.View(partial.tensor.view(), box)
      .AsPartial(partial.lane_begin, partial.lane_end, data_lanes_.total);
}

void GradientSum::MergeTopTwo() {
  ScopedPhase phase(Phase::kReduce);
  Partial right = std::move(tree_.back());
  tree_.pop_back();
  Partial& left = tree_.back();
  Partial sum{Tensor(), left.level + 1, left.lane_begin, right.lane_end};
  for (size_t box = 0; box < merged_.boxes.size(); ++box) {
    const TensorView dst =
        ViewOfPartial(left, box).AsPartial(sum.lane_begin, sum.lane_end, data_lanes_.total);
    Add(ViewOfPartial(left, box), ViewOfPartial(right, box), dst);
  }
  sum.tensor = std::move(left.tensor);
  if (replicas_ == nullptr) free_.push_back(std::move(right.tensor));
  left = std::move(sum);
}

void GradientSum::MergeAll() {
  // What is left are odd ones out, which moved up unchanged until their left neighbour was ready.
  while (tree_.size() >= 2) MergeTopTwo();
}

// Two neighbouring subtrees of one level are a finished subtree of the next.
void GradientSum::Push(Partial lane) {
  tree_.push_back(std::move(lane));
  while (tree_.size() >= 2 && tree_[tree_.size() - 2].level == tree_.back().level) MergeTopTwo();
}

void GradientSum::FinishLane() {
  SAMESTEP_CHECK_LT(finished_lanes_, data_lanes_.count);
  Partial lane;
  lane.lane_begin = data_lanes_.first + finished_lanes_;
  lane.lane_end = lane.lane_begin + 1;
  if (token_lanes_.count == 1) {
    lane.tensor = std::move(current_);
    current_ = Tensor();
  } else {
    ScopedPhase phase(Phase::kReduce);
    lane.tensor = TakeBuffer();
    for (size_t box = 0; box < shard_.boxes.size(); ++box) {
      // Of a replica this is not the data lane's sum yet, but that of this rank's token lanes.
      const LaneRange& t = token_lanes_;
      const TensorView dst = shard_.View(lane.tensor.view(), box);
      SumTree(Accumulator(box), replicas_ == nullptr
                                    ? dst.AsPartial(lane.lane_begin, lane.lane_end, data_lanes_.total)
                                    : dst.AsPartial(t.first, t.first + t.count, t.total));
    }
  }
  ++finished_lanes_;
  lanes_set_ = 0;
  if (replicas_ != nullptr) {
    lanes_.push_back(std::move(lane.tensor));
  } else {
    Push(std::move(lane));
  }
}

TensorView GradientSum::Finish() {
  SAMESTEP_CHECK_EQ(finished_lanes_, data_lanes_.count);
  if (replicas_ != nullptr) return FinishReplicas();
  MergeAll();
  return tree_.front().tensor.view();
}

TensorView GradientSum::FinishReplicas() {
  ScopedPhase phase(Phase::kReduce);
  const int ranks = replicas_->size();
  const Shape own = merged_.local_shape();
  std::vector<Tensor> parts;
  std::vector<Pending> moves;
  for (const Tensor& lane : lanes_) {
    parts.push_back(Tensor::Empty({ranks, own.elements()}));
    moves.push_back(StartSlices(*replicas_, lane.view(), parts.back().view(), kReplicaTag));
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    moves[i].Wait();
    const int32_t begin = data_lanes_.first + static_cast<int32_t>(i);
    Partial lane{Tensor::Empty(own), 0, begin, begin + 1};
    if (!merged_.boxes.empty()) {
      const TensorView dst = ViewOfPartial(lane, 0);
      SumTree(PartsOf(parts[i], ranks, dst).AsPartial(begin, begin + 1, data_lanes_.total), dst);
    }
    Push(std::move(lane));
  }
  MergeAll();
  if (whole_.empty()) whole_ = Tensor::Empty(shard_.local_shape());
  const Range rows = PartOf(shard_.local_rows(), replicas_->size(), replicas_->rank());
  const Tensor& mine = tree_.front().tensor;
  if (mine.bytes() > 0) {
    std::memcpy(whole_.view().Slice(rows.first, rows.count).data, mine.view().data, mine.bytes());
  }
  StartGatherRows(*replicas_, whole_.view(), kReplicaTag).Wait();
  return whole_.view();
}

}  // namespace samestep
