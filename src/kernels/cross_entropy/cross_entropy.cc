#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy/cross_entropy-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/cross_entropy/cross_entropy-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(CrossEntropyFast);

std::vector<Problem> Problems() {
  const auto problem = [](const char* label, int64_t rows, int64_t vocabulary, int64_t lane_size, int lanes,
                          Fill fill, double scale, bool gradient, int64_t padding, bool timed) {
    const ProblemArgument result{{rows}, Fill::kOutput};
    return Problem{
        .label = label,
        .arguments = {{{rows, vocabulary}, fill, scale, DType::kF32, padding, !gradient, Access::kRead},
                      {{rows}, Fill::kTargets, static_cast<double>(vocabulary), DType::kI32},
                      result,
                      result,
                      result},
        .attributes = {IntegerAttribute("vocab_lane_size", lane_size),
                       IntegerAttribute("tensor_lanes", lanes), RealAttribute("weight", 1.0f / 37),
                       IntegerAttribute("want_gradient", gradient)},
        .timed = timed};
  };
  return {problem("1x1", 1, 1, 1, 1, Fill::kNormal, 1, true, 0, false),
          problem("37x65, rows padded", 37, 65, 72, 1, Fill::kNormal, 3, true, 7, false),
          problem("5x19, 4 lanes, one empty", 5, 19, 8, 4, Fill::kWild, 1, true, 13, false),
          problem("80x257, 2 lanes", 80, 257, 144, 2, Fill::kNormal, 30, true, 31, false),
          problem("20x300, loss only", 20, 300, 300, 1, Fill::kNormal, 2, false, 0, false),
          problem("equal logits of both signs", 9, 33, 33, 1, Fill::kZero, 1, true, 0, false),
          problem("64x50257", 64, 50257, 50304, 1, Fill::kNormal, 2, true, 47, true),
          problem("4096x256", 4096, 256, 256, 1, Fill::kNormal, 2, true, 0, true)};
}

}  // namespace

const Kernel& kCrossEntropy = RegisterKernel(
    {.name = "cross_entropy",
     .version = 1,
     .arguments = {{"logits", Access::kUpdate},
                   {"targets", Access::kRead},
                   {"loss", Access::kWrite},
                   {"row_max", Access::kWrite},
                   {"row_sum", Access::kWrite}},
     .reference = CrossEntropyReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(CrossEntropyFast)(call); },
     .problems = Problems,
     .summary =
         "loss = (m - z[t]) + log(l), l = tree of a row sum of expz(z - m) a lane; dz = (expz(z - m)/l - "
         "onehot) * w"});

void CrossEntropy(const TensorView& logits, const TensorView& targets, const TensorView& loss,
                  const TensorView& row_max, const TensorView& row_sum, const CrossEntropyOptions& options) {
  SAMESTEP_CHECK_LE(logits.columns(), options.vocab_lane_size * options.tensor_lanes);
  Run(Call(kCrossEntropy)
          .Add(logits, options.want_gradient ? Access::kUpdate : Access::kRead)
          .Read(targets)
          .Write(loss)
          .Write(row_max)
          .Write(row_sum)
          .Set("vocab_lane_size", options.vocab_lane_size)
          .Set("tensor_lanes", options.tensor_lanes)
          .Set("weight", options.weight)
          .Set("want_gradient", options.want_gradient ? 1 : 0));
}

}  // namespace samestep
#endif  // HWY_ONCE
