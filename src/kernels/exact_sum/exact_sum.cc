#include "kernels/exact_sum/exact_sum.h"

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/row_tasks.h"
#include "numerics/exact_sum.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exact_sum/exact_sum-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/exact_sum/exact_sum-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(AddSpanOfValues);
HWY_EXPORT(AddSpanOfSquares);

static_assert(kExactSumWords == ExactSum::kStateWords);

ExactSum ReadState(const TensorView& state) {
  SAMESTEP_CHECK_EQ(state.elements(), kExactSumWords);
  return ExactSum::FromState(std::span<const int64_t, ExactSum::kStateWords>(state.i64(), kExactSumWords));
}

void WriteState(const ExactSum& sum, const TensorView& state) {
  SAMESTEP_CHECK_EQ(state.elements(), kExactSumWords);
  std::ranges::copy(sum.State(), state.i64());
}

// The state that a call (src, state) begins with.
ExactSum StartOf(const Call& call) {
  return call.Integer("accumulate") != 0 ? ReadState(call.view(1)) : ExactSum();
}

using AddFunction = void (ExactSum::*)(std::span<const float>);

template <AddFunction kAdd>
void Reference(const Call& call) {
  const TensorView& src = call.view(0);
  ExactSum sum = StartOf(call);
  for (int64_t row = 0; row < src.rows(); ++row) {
    for (int64_t i = 0; i < src.columns(); ++i) (sum.*kAdd)({src.f32() + row * src.row_stride() + i, 1});
  }
  WriteState(sum, call.view(1));
}

template <bool kSquares>
void Fast(const Call& call) {
  const TensorView& src = call.view(0);
  const float* x = src.f32();
  const bool packed = src.contiguous();
  // Packed memory is cut into rows of a task's size, whatever its shape is.
  const int64_t columns = packed ? kElementsOfATask : src.columns();
  const int64_t stride = packed ? columns : src.row_stride();
  const int64_t elements = src.elements();
  const int64_t rows = packed ? (elements + columns - 1) / columns : src.rows();
  const int64_t group = std::max<int64_t>(1, kElementsOfATask / std::max<int64_t>(1, columns));
  const int64_t tasks = (rows + group - 1) / group;
  std::vector<ExactSum> sums(static_cast<size_t>(tasks));
  ParallelFor(tasks, [&](int64_t task) {
    for (int64_t row = task * group; row < std::min(rows, (task + 1) * group); ++row) {
      const int64_t count = std::min(columns, elements - row * columns);
      if (kSquares) {
        HWY_DYNAMIC_DISPATCH(AddSpanOfSquares)(x + row * stride, count, &sums[task]);
      } else {
        HWY_DYNAMIC_DISPATCH(AddSpanOfValues)(x + row * stride, count, &sums[task]);
      }
    }
  });
  ExactSum total = StartOf(call);
  for (const ExactSum& sum : sums) total.Merge(sum);
  WriteState(total, call.view(1));
}

std::vector<Problem> Problems() {
  const auto problem = [](const char* label, Shape shape, Fill fill, bool accumulate, int64_t padding,
                          bool timed) {
    return Problem{.label = label,
                   .arguments = {{shape, fill, 1, DType::kF32, padding},
                                 {{kExactSumWords},
                                  accumulate ? Fill::kZero : Fill::kOutput,
                                  1,
                                  DType::kI64,
                                  0,
                                  accumulate,
                                  Access::kUpdate}},
                   .attributes = {IntegerAttribute("accumulate", accumulate)},
                   .timed = timed};
  };
  std::vector<Problem> problems = {problem("1", {1}, Fill::kNormal, false, 0, false),
                                   problem("zeros", {5, 3}, Fill::kZero, false, 0, false),
                                   problem("wild, rows padded", {150, 130}, Fill::kWild, false, 3, false),
                                   problem("many tasks", {60, 1021}, Fill::kNormal, false, 0, false),
                                   problem("accumulate", {7, 11}, Fill::kWild, true, 0, false),
                                   problem("16M", {4096, 4096}, Fill::kNormal, false, 0, true)};
  // A state to continue, in place of zeros: the sum of what `src` holds.
  problems[4].prepare = [](const Call& call) {
    ExactSum sum;
    for (int64_t row = 0; row < call.view(0).rows(); ++row) sum.Add(call.view(0).f32()[row]);
    WriteState(sum, call.view(1));
  };
  return problems;
}

const std::vector<ArgumentSpec> kArguments = {{"src", Access::kRead}, {"state", Access::kWrite}};

}  // namespace

const Kernel& kExactSumValues =
    RegisterKernel({.name = "exact_sum.values",
                    .version = 1,
                    .arguments = kArguments,
                    .reference = Reference<static_cast<AddFunction>(&ExactSum::Add)>,
                    .fast = Fast<false>,
                    .problems = Problems,
                    .summary = "the exact sum, as integers; no order"});

const Kernel& kExactSumSquares =
    RegisterKernel({.name = "exact_sum.squares",
                    .version = 1,
                    .arguments = kArguments,
                    .reference = Reference<&ExactSum::AddSquares>,
                    .fast = Fast<true>,
                    .problems = Problems,
                    .summary = "the exact sum of exact squares, as integers; no order"});

void ExactSumOf(const TensorView& src, const TensorView& state, bool squares, bool accumulate) {
  Run(Call(squares ? kExactSumSquares : kExactSumValues)
          .Read(src)
          .Add(state, accumulate ? Access::kUpdate : Access::kWrite)
          .Set("accumulate", accumulate ? 1 : 0));
}

double RoundExactSum(const TensorView& state) { return ReadState(state).Round(); }

}  // namespace samestep
#endif  // HWY_ONCE
