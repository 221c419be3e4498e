#include "model/gradient_reducer.h"

#include "kernels/sum/sum.h"
#include "parallel/exchange.h"

namespace samestep {
namespace {

constexpr int kGradientTag = 4;
constexpr int kTiedTag = 5;

}  // namespace

void GradientReducer::StartSum(Parameter& p, GradientSum& sum, std::map<std::string, Move>& moves) {
  Move& move = moves[p.name];
  move.partial = sum.Finish();
  Communicator& group = grid_->data();
  if (group.size() == 1) return;
  if (move.parts.empty()) {
    Shape shape{group.size()};
    const Shape own = p.owned_shard().local_shape();
    for (int i = 0; i < own.rank(); ++i) shape.Append(own[i]);
    move.parts = Tensor::Empty(shape);
  }
  move.pending = StartSlices(group, move.partial, move.parts.view(), kGradientTag);
}

void GradientReducer::Start(Parameter& p) {
  ScopedPhase phase(Phase::kReduce);
  ScopedModule module(p.name);
  const bool embedding = !p.tied || p.owned(), output = !p.tied || p.copy || grid_->last_stage();
  if (output) StartSum(p, p.sum, moves_);
  if (p.tied && embedding) StartSum(p, p.other_sum, other_moves_);
}

TensorView GradientReducer::FinishSum(Parameter& p, std::map<std::string, Move>& moves, Tensor& memory) {
  Move& move = moves.at(p.name);
  Communicator& group = grid_->data();
  if (group.size() == 1) return move.partial;
  move.pending.Wait();
  const Shard own = p.owned_shard();
  if (memory.empty()) memory = Tensor::Empty(own.local_shape());
  const TensorView sum = memory.view();
  for (size_t box = 0; box < own.boxes.size(); ++box) {
    const TensorView dst = own.View(sum, box);
    TensorView parts = PartsOf(move.parts, group.size(), dst);
    // A box is a range of rows in every rank's part.
    const int64_t width = own.columns.count;
    parts.data = move.parts.f32() + own.boxes[box].local_row * width;
    parts.strides[0] = own.local_shape().elements();
    SumTree(parts, dst);
  }
  return sum;
}

// The last stage's output projection has the other half of a tied weight's gradient.
void GradientReducer::PassTiedGradient(Parameter& p, const TensorView& gradient) {
  const Transfer send{0, gradient.data, static_cast<size_t>(gradient.elements()) * sizeof(float)};
  grid_->pipeline().Start({&send, 1}, {}, kTiedTag).Wait();
  p.gradient = TensorView{};
}

void GradientReducer::AddTied(Parameter& p) {
  const TensorView embedding = FinishSum(p, other_moves_, other_sums_[p.name]);
  const Shard own = p.owned_shard();
  if (tied_.empty()) tied_ = Tensor::Empty(own.local_shape());
  if (!grid_->last_stage()) {
    Tensor& output = sums_[p.name];
    if (output.empty()) output = Tensor::Empty(own.local_shape());
    const Transfer receive{grid_->pipeline().size() - 1, output.f32(), output.bytes()};
    grid_->pipeline().Start({}, {&receive, 1}, kTiedTag).Wait();
    p.gradient = output.view();
  }
  for (size_t box = 0; box < own.boxes.size(); ++box) {
    Add(own.View(p.gradient, box), own.View(embedding, box), own.View(tied_.view(), box));
  }
  p.gradient = tied_.view();
}

void GradientReducer::Finish() {
  ScopedPhase phase(Phase::kReduce);
  // Stages that others wait for come first, whatever the order of names.
  for (Parameter* p : parameters_->Held()) {
    ScopedModule module(p->name);
    if (p->copy) PassTiedGradient(*p, FinishSum(*p, moves_, sums_[p->name]));
  }
  for (Parameter* p : parameters_->Held()) {
    if (p->copy) continue;
    ScopedModule module(p->name);
    if (!p->tied || grid_->last_stage()) p->gradient = FinishSum(*p, moves_, sums_[p->name]);
    if (p->tied) AddTied(*p);
  }
}

}  // namespace samestep
