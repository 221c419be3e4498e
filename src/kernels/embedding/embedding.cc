#include "kernels/embedding/embedding.h"

#include "kernels/embedding/embedding_reference.h"
#include "kernels/problems.h"
#include "numerics/targets.h"
//
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/embedding-inl.h"
#include "hwy/foreach_target.h"
//
#include "kernels/embedding/embedding-inl.h"

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(EmbeddingForwardFast);
HWY_EXPORT(EmbeddingBackwardFast);
HWY_EXPORT(PositionBackwardFast);

// [token_lanes, rows, features] of accumulators, continued where a lane of them is set.
ProblemArgument Lanes(const TokenSum& order, int64_t rows, int64_t features) {
  const bool update = order.lanes_set != 0;
  return {{order.token_lanes, rows, features},
          update ? Fill::kNormal : Fill::kOutput,
          1,
          DType::kF32,
          0,
          update,
          Access::kUpdate};
}

std::vector<Problem> ForwardProblems() {
  const auto problem = [](const char* label, int64_t samples, int64_t length, int64_t vocabulary,
                          int64_t features, int64_t positions, int64_t padding, bool timed) {
    return Problem{
        .label = label,
        .arguments =
            {{{samples, length}, Fill::kTokens, static_cast<double>(vocabulary), DType::kI32, padding},
             {{vocabulary, features}, Fill::kWild, 1, DType::kF32, padding},
             {positions == 0 ? Shape() : Shape{positions, features}, Fill::kNormal},
             {{samples, length, features}, Fill::kOutput, 1, DType::kF32, padding}},
        .attributes = {},
        .timed = timed};
  };
  return {problem("one token", 1, 1, 1, 1, 0, 0, false),
          problem("3x20, rows padded, positions", 3, 20, 11, 19, 23, 3, false),
          problem("2x300, 100 features", 2, 300, 500, 100, 300, 0, false),
          problem("2x300, no positions", 2, 300, 50, 64, 0, 0, false),
          problem("8x512x768 of 50257", 8, 512, 50257, 768, 1024, 0, true)};
}

std::vector<Problem> BackwardProblems() {
  const auto problem = [](const char* label, int64_t samples, int64_t length, int64_t vocabulary,
                          int64_t features, const TokenSum& order, int64_t padding, bool timed,
                          int64_t first_row = 0, int64_t rows = -1) {
    std::vector<Attribute> attributes = TokenSumAttributes(order);
    attributes.push_back(IntegerAttribute("first_row", first_row));
    return Problem{
        .label = label,
        .arguments =
            {{{samples, length}, Fill::kTokens, static_cast<double>(vocabulary), DType::kI32, padding},
             {{samples, length, features}, Fill::kWild, 1, DType::kF32, padding},
             Lanes(order, rows < 0 ? vocabulary : rows, features)},
        .attributes = attributes,
        .timed = timed};
  };
  return {problem("one token", 1, 1, 1, 1, {.tokens = 1}, 0, false),
          problem("3x20, 2 lanes", 3, 20, 7, 19, {.tokens = 20, .token_lanes = 2}, 3, false),
          problem("2x300 continued", 2, 300, 50, 100, {.tokens = 300, .lanes_set = 1}, 0, false),
          problem("4x64, one lane of 4 set", 4, 64, 30, 130, {.tokens = 64, .token_lanes = 4, .lanes_set = 2},
                  0, false),
          problem("3x20, rows 3 to 7 of 11", 3, 20, 11, 19, {.tokens = 20, .token_lanes = 2}, 3, false, 3, 5),
          problem("2x300 continued, rows from 40 on", 2, 300, 50, 100, {.tokens = 300, .lanes_set = 1}, 0,
                  false, 40, 10),
          problem("no rows: a shard in the padding", 2, 9, 11, 5, {.tokens = 9}, 0, false, 12, 0),
          problem("8x512x768 of 50257", 8, 512, 50257, 768, {.tokens = 512}, 0, true)};
}

std::vector<Problem> PositionProblems() {
  const auto problem = [](const char* label, Shape shape, int64_t positions, const TokenSum& order,
                          int64_t padding, bool timed) {
    return Problem{
        .label = label,
        .arguments = {{shape, Fill::kWild, 1, DType::kF32, padding}, Lanes(order, positions, shape.back())},
        .attributes = TokenSumAttributes(order),
        .timed = timed};
  };
  return {problem("one token", {1, 1, 1}, 1, {.tokens = 1}, 0, false),
          problem("3x20, 4 lanes", {3, 20, 19}, 23, {.tokens = 20, .token_lanes = 4}, 3, false),
          problem("2x300 continued", {2, 300, 100}, 300, {.tokens = 300, .lanes_set = 1}, 0, false),
          problem("part of a sample", {1, 256, 33}, 1024,
                  {.tokens = 1024, .first_token = 512, .token_lanes = 2, .lanes_set = 1}, 0, false),
          problem("8x512x768", {8, 512, 768}, 1024, {.tokens = 512}, 0, true)};
}

}  // namespace

const Kernel& kEmbeddingForward =
    RegisterKernel({.name = "embedding.forward",
                    .version = 1,
                    .arguments = {{"tokens", Access::kRead},
                                  {"weights", Access::kRead},
                                  {"positions", Access::kRead},
                                  {"dst", Access::kWrite}},
                    .reference = EmbeddingForwardReference,
                    .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(EmbeddingForwardFast)(call); },
                    .problems = ForwardProblems,
                    .summary = "rows are selected; with learned positions fl(token + position)"});

const Kernel& kEmbeddingBackward = RegisterKernel(
    {.name = "embedding.backward",
     .version = 1,
     .arguments = {{"tokens", Access::kRead}, {"diff_dst", Access::kRead}, {"diff_weights", Access::kWrite}},
     .reference = EmbeddingBackwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(EmbeddingBackwardFast)(call); },
     .problems = BackwardProblems,
     .summary = "acc = fl(acc + dX[p]) from +0 over the positions of a token ascending, an accumulator a "
                "lane; tokens "
                "of other shards of the table contribute nothing"});

const Kernel& kPositionBackward = RegisterKernel(
    {.name = "position.backward",
     .version = 1,
     .arguments = {{"diff_dst", Access::kRead}, {"diff_positions", Access::kWrite}},
     .reference = PositionBackwardReference,
     .fast = [](const Call& call) { HWY_DYNAMIC_DISPATCH(PositionBackwardFast)(call); },
     .problems = PositionProblems,
     .summary = "acc = fl(acc + dX[p]) from +0 over samples ascending, an accumulator a lane"});

void EmbeddingForward(const TensorView& tokens, const TensorView& weights, const TensorView& positions,
                      const TensorView& dst) {
  Run(Call(kEmbeddingForward).Read(tokens).Read(weights).Read(positions).Write(dst));
}

void EmbeddingBackward(const TensorView& tokens, const TensorView& diff_dst, const TensorView& diff_weights,
                       const TokenSum& order, int64_t first_row) {
  Call call(kEmbeddingBackward);
  call.Read(tokens).Read(diff_dst).Add(diff_weights, order.lanes_set == 0 ? Access::kWrite : Access::kUpdate);
  SetTokenSum(call, order);
  call.Set("first_row", first_row);
  Run(call);
}

void PositionBackward(const TensorView& diff_dst, const TensorView& diff_positions, const TokenSum& order) {
  Call call(kPositionBackward);
  call.Read(diff_dst).Add(diff_positions, order.lanes_set == 0 ? Access::kWrite : Access::kUpdate);
  SetTokenSum(call, order);
  Run(call);
}

}  // namespace samestep
#endif  // HWY_ONCE
