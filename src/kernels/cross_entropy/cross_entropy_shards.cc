#include "kernels/cross_entropy/cross_entropy_shards.h"

#include <algorithm>
#include <limits>

#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy/cross_entropy_shards-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/cross_entropy/cross_entropy_shards-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(CrossEntropyMaxFast);
HWY_EXPORT(CrossEntropySumFast);
HWY_EXPORT(CrossEntropyLossFast);

// A shard of a padded vocabulary of shards * lanes * lane_size columns.
struct ShardProblem {
  const char* label;
  int64_t rows, vocab, lane_size;
  int lanes;  // of the shard
  int64_t shards, shard;
  Fill fill = Fill::kNormal;
  double scale = 1;
  bool gradient = true;
  int64_t padding = 0;
  bool timed = false;

  int64_t shard_columns() const { return lane_size * lanes; }
  int64_t first_column() const { return shard * shard_columns(); }
  int64_t columns() const { return std::clamp<int64_t>(vocab - first_column(), 0, shard_columns()); }
  ProblemArgument Logits(Fill with) const {
    return {{rows, columns()}, with, scale, DType::kF32, padding, !gradient, Access::kRead};
  }
  ProblemArgument Targets() const {
    return {{rows}, Fill::kTargets, static_cast<double>(vocab), DType::kI32};
  }
};

const std::vector<ShardProblem>& ShardProblems() {
  static const auto* problems = new std::vector<ShardProblem>{
      {"1x1, one shard", 1, 1, 1, 1, 1, 0},
      {"37x31, shard 1 of 2, rows padded", 37, 65, 17, 2, 2, 1, Fill::kNormal, 3, true, 7},
      {"5x19, 4 lanes, one empty", 5, 19, 8, 4, 1, 0, Fill::kWild, 1, true, 13},
      {"9x3, shard 2 of 4", 9, 19, 8, 1, 4, 2, Fill::kNormal, 30},
      {"12 rows, shard 3 of 4 in the padding", 12, 19, 8, 1, 4, 3},
      {"80x150, shard 0 of 3, loss only", 80, 400, 75, 2, 3, 0, Fill::kNormal, 2, false},
      {"equal logits of both signs", 9, 33, 33, 1, 1, 0, Fill::kZero},
      {"64x25105, shard 1 of 2", 64, 50257, 25152, 1, 2, 1, Fill::kNormal, 2, true, 47, true},
  };
  return *problems;
}

std::vector<Problem> MaxProblems() {
  std::vector<Problem> problems;
  for (const ShardProblem& p : ShardProblems()) {
    ProblemArgument logits = p.Logits(p.fill);
    logits.has_access = false;
    problems.push_back({.label = p.label,
                        .arguments = {logits, {{p.rows}, Fill::kOutput}},
                        .attributes = {},
                        .timed = p.timed});
  }
  return problems;
}

// Lets the shard's own maximum be what it is.
void SetOwnMaximum(const Call& call) {
  const TensorView &logits = call.view(0), &maxima = call.view(2);
  const int64_t rows = maxima.shape[1], columns = logits.columns();
  const int64_t shard =
      call.Integer("first_column") / (call.Integer("vocab_lane_size") * call.Integer("tensor_lanes"));
  for (int64_t row = 0; row < rows; ++row) {
    maxima.f32()[shard * rows + row] = columns == 0
                                           ? -std::numeric_limits<float>::infinity()
                                           : RowMax({logits.f32() + row * logits.row_stride()}, columns);
  }
}

std::vector<Problem> SumProblems() {
  std::vector<Problem> problems;
  for (const ShardProblem& p : ShardProblems()) {
    const ProblemArgument result{{p.rows}, Fill::kOutput};
    problems.push_back(
        {.label = p.label,
         .arguments =
             {p.Logits(p.fill), p.Targets(), {{p.shards, p.rows}, p.fill, p.scale}, result, result, result},
         .attributes = {IntegerAttribute("first_column", p.first_column()),
                        IntegerAttribute("vocab_lane_size", p.lane_size),
                        IntegerAttribute("tensor_lanes", p.lanes), IntegerAttribute("vocab", p.vocab),
                        IntegerAttribute("want_gradient", p.gradient)},
         .timed = p.timed,
         .prepare = SetOwnMaximum});
  }
  return problems;
}

std::vector<Problem> LossProblems() {
  std::vector<Problem> problems;
  for (const ShardProblem& p : ShardProblems()) {
    const ProblemArgument result{{p.rows}, Fill::kOutput};
    problems.push_back({.label = p.label,
                        .arguments = {p.Logits(Fill::kPositive),
                                      p.Targets(),
                                      {{p.rows}, p.fill, p.scale},
                                      {{p.shards, p.rows}, Fill::kPositive},
                                      {{p.shards, p.rows}, p.fill, p.scale},
                                      result,
                                      result},
                        .attributes = {IntegerAttribute("first_column", p.first_column()),
                                       IntegerAttribute("shard_columns", p.shard_columns()),
                                       IntegerAttribute("vocab", p.vocab), RealAttribute("weight", 1.0f / 37),
                                       IntegerAttribute("want_gradient", p.gradient)},
                        .timed = p.timed});
  }
  return problems;
}

}  // namespace

const Kernel& kCrossEntropyMax = RegisterKernel(
    {.name = "cross_entropy.max",
     .version = 1,
     .arguments = {{"logits", Access::kRead}, {"local_max", Access::kWrite}},
     .reference = CrossEntropyMaxReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(CrossEntropyMaxFast)(call); },
     .problems = MaxProblems,
     .summary = "the maximum of a row over a shard of the vocabulary, max(-0, +0) = +0; no order"});

const Kernel& kCrossEntropySum = RegisterKernel(
    {.name = "cross_entropy.sum",
     .version = 1,
     .arguments = {{"logits", Access::kUpdate},
                   {"targets", Access::kRead},
                   {"maxima", Access::kRead},
                   {"row_max", Access::kWrite},
                   {"lane_sum", Access::kWrite},
                   {"target_logit", Access::kWrite}},
     .reference = CrossEntropySumReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(CrossEntropySumFast)(call); },
     .problems = SumProblems,
     .summary = "the tree of a row sum of p = expz(z - m) a lane of a shard, m the maximum over shards; p in "
                "the logits' place; z[t] of a target in the shard"});

const Kernel& kCrossEntropyLoss = RegisterKernel(
    {.name = "cross_entropy.loss",
     .version = 1,
     .arguments = {{"logits", Access::kUpdate},
                   {"targets", Access::kRead},
                   {"row_max", Access::kRead},
                   {"lane_sums", Access::kRead},
                   {"target_logits", Access::kRead},
                   {"loss", Access::kWrite},
                   {"row_sum", Access::kWrite}},
     .reference = CrossEntropyLossReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(CrossEntropyLossFast)(call); },
     .problems = LossProblems,
     .summary =
         "loss = (m - z[t]) + log(l), l = the tree over the shards' lane sums; dz = (p/l - onehot) * w "
         "in the place of p"});

void CrossEntropyMax(const TensorView& logits, const TensorView& local_max) {
  Run(Call(kCrossEntropyMax).Read(logits).Write(local_max));
}

void CrossEntropySum(const TensorView& logits, const TensorView& targets, const TensorView& maxima,
                     const TensorView& row_max, const TensorView& lane_sum, const TensorView& target_logit,
                     const VocabularyShard& shard, bool want_gradient) {
  Run(Call(kCrossEntropySum)
          .Add(logits, want_gradient ? Access::kUpdate : Access::kRead)
          .Read(targets)
          .Read(maxima)
          .Write(row_max)
          .Write(lane_sum)
          .Write(target_logit)
          .Set("first_column", shard.first_column)
          .Set("vocab_lane_size", shard.lane_size)
          .Set("tensor_lanes", shard.lanes)
          .Set("vocab", shard.vocab)
          .Set("want_gradient", want_gradient ? 1 : 0));
}

void CrossEntropyLoss(const TensorView& logits, const TensorView& targets, const TensorView& row_max,
                      const TensorView& lane_sums, const TensorView& target_logits, const TensorView& loss,
                      const TensorView& row_sum, const VocabularyShard& shard, float weight,
                      bool want_gradient) {
  Run(Call(kCrossEntropyLoss)
          .Add(logits, want_gradient ? Access::kUpdate : Access::kRead)
          .Read(targets)
          .Read(row_max)
          .Read(lane_sums)
          .Read(target_logits)
          .Write(loss)
          .Write(row_sum)
          .Set("first_column", shard.first_column)
          .Set("shard_columns", shard.lane_size * shard.lanes)
          .Set("vocab", shard.vocab)
          .Set("weight", weight)
          .Set("want_gradient", want_gradient ? 1 : 0));
}

}  // namespace samestep
#endif  // HWY_ONCE
