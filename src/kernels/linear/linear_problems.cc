// What the linear kernels are tested and timed on: the sizes of the oracle's vectors, sizes around panels,
// vectors and blocks, padded rows, and the shapes of a GPT-2 step.
#include <fmt/ranges.h>

#include <string>

#include "kernels/linear/linear_kernels.h"
#include "kernels/problems.h"

namespace samestep {
namespace {

constexpr ProblemArgument kAbsent = {};

struct Product {
  int64_t rows, outputs, inputs;
  int lanes = 1;
  bool bias = false;
  Fill fill = Fill::kWild;
  int64_t padding = 0;  // of all matrices' rows
  bool timed = false;
};

std::string LabelOf(const Product& p) {
  return fmt::format("{}x{}x{} lanes {}{}", p.rows, p.outputs, p.inputs, p.lanes,
                     p.padding != 0 ? " padded" : "");
}

const std::vector<Product>& ForwardProducts() {
  static const auto* products = new std::vector<Product>{
      {3, 5, 1},
      {7, 3, 255},
      {4, 4, 256},
      {2, 5, 257},
      {5, 7, 700, 1, true},
      {3, 3, 768, 4},
      {2, 2, 1536, 2, true},
      {2, 3, 96, 8},
      {1, 1, 1},
      {1, 17, 3, 1, true},
      {17, 1, 19},
      {9, 49, 33, 3, true},
      {13, 100, 64, 1, true, Fill::kNormal, 5},
      {25, 97, 300, 5, true, Fill::kWild, 3},
      {97, 25, 300, 6, true},
      {64, 31, 513, 1, false, Fill::kWild, 1},
      {8, 48, 256, 1, true, Fill::kNormal},
      {41, 40, 77, 7, true},
      {6, 0, 20},  // a shard in the padding of the vocabulary
      {512, 768, 768, 1, true, Fill::kNormal, 0, true},
      {512, 3072, 768, 1, true, Fill::kNormal, 0, true},
      {512, 768, 3072, 4, true, Fill::kNormal, 0, true},
      {512, 50304, 768, 1, false, Fill::kNormal, 0, true},
  };
  return *products;
}

ProblemArgument Matrix(const Shape& shape, Fill fill, int64_t padding) {
  return {.shape = shape, .fill = fill, .row_padding = padding};
}

}  // namespace

std::vector<Problem> LinearForwardProblems() {
  std::vector<Problem> problems;
  for (const Product& p : ForwardProducts()) {
    const ProblemArgument bias = {.shape = {p.outputs}, .fill = p.fill};
    problems.push_back(
        {.label = LabelOf(p),
         .arguments = {Matrix({p.rows, p.inputs}, p.fill, p.padding),
                       Matrix({p.outputs, p.inputs}, p.fill, p.padding), p.bias ? bias : kAbsent,
                       Matrix({p.rows, p.outputs}, Fill::kOutput, p.padding)},
         .attributes = {IntegerAttribute("tensor_lanes", p.lanes)},
         .timed = p.timed});
  }
  return problems;
}

std::vector<Problem> LinearBackwardDataProblems() {
  struct FanIn {
    int64_t rows, inputs;
    std::vector<int64_t> outputs;
    int lanes = 1;
    int64_t lane_size = 0;
    Fill fill = Fill::kWild;
    int64_t padding = 0;
    bool timed = false;
  };
  const std::vector<FanIn> all = {
      {3, 5, {1}},
      {7, 3, {255}},
      {4, 4, {256}},
      {2, 5, {257}},
      {5, 7, {700}},
      {3, 3, {768}, 4},
      {2, 3, {96}, 8},
      {1, 1, {1, 1, 1}},
      {13, 50, {40, 20, 20}, 2},
      {6, 33, {300, 300}, 3, 0, Fill::kWild, 3},
      {19, 17, {700, 24, 257}, 1, 0, Fill::kWild, 1},
      {9, 49, {105}, 4, 32},                 // a padded vocabulary: the last lane is shorter
      {5, 20, {50}, 4, 24, Fill::kWild, 2},  // ... and the last is empty
      {11, 13, {1300, 5}, 2, 700},           // ... lanes of several blocks
      {60, 70, {80}, 5, 0, Fill::kNormal},
      {7, 20, {0}, 2, 24},  // a shard in the padding of the vocabulary: +0
      {3, 18, {0}, 1},
      {512, 768, {768}, 1, 0, Fill::kNormal, 0, true},
      {512, 768, {768, 768, 768}, 4, 0, Fill::kNormal, 0, true},
      {512, 768, {3072}, 1, 0, Fill::kNormal, 0, true},
      {256, 768, {50257}, 1, 50304, Fill::kNormal, 0, true},
  };
  std::vector<Problem> problems;
  for (const FanIn& f : all) {
    Problem problem{
        .label = fmt::format("{}x{} from {} lanes {}", f.rows, f.inputs, fmt::join(f.outputs, "+"), f.lanes),
        .arguments = {},
        .attributes = {IntegerAttribute("tensor_lanes", f.lanes), IntegerAttribute("lane_size", f.lane_size)},
        .timed = f.timed};
    for (int64_t outputs : f.outputs) {
      problem.arguments.push_back(Matrix({f.rows, outputs}, f.fill, f.padding));
      problem.arguments.push_back(Matrix({outputs, f.inputs}, f.fill, f.padding));
    }
    problem.arguments.resize(6);
    problem.arguments.push_back(Matrix({f.rows, f.inputs}, Fill::kOutput, f.padding));
    problems.push_back(problem);
  }
  return problems;
}

namespace {

struct TokenProduct {
  int64_t rows, outputs, inputs;
  TokenSum order;
  int64_t padding = 0;
  bool timed = false;
};

const std::vector<TokenProduct>& TokenProducts() {
  static const auto* products = new std::vector<TokenProduct>{
      {8, 2, 2, {.tokens = 8}},
      {256, 3, 2, {.tokens = 64}},
      {64, 3, 2, {.tokens = 64}},
      {600, 2, 3, {.tokens = 300}},
      {80, 2, 2, {.tokens = 40}},
      {128, 2, 2, {.tokens = 64, .token_lanes = 4}},
      {1, 1, 1, {.tokens = 1}},
      {34, 49, 51, {.tokens = 17}, 3},
      {34, 49, 51, {.tokens = 17, .lanes_set = 1}},
      {300, 50, 9, {.tokens = 700, .first_token = 256, .lanes_set = 1}},     // blocks of 256 and 44
      {256, 9, 100, {.tokens = 1024, .token_lanes = 2}},                     // touches one lane of two
      {96, 17, 20, {.tokens = 48, .first_token = 24, .token_lanes = 2}, 1},  // from the second lane on
      {40, 7, 24, {.tokens = 40, .token_lanes = 8, .lanes_set = 0x0F}},      // some set, some not
      {12, 0, 5, {.tokens = 12}},  // a shard in the padding of the vocabulary
      {512, 768, 768, {.tokens = 512}, 0, true},
      {512, 3072, 768, {.tokens = 256, .lanes_set = 1}, 0, true},
      {512, 768, 3072, {.tokens = 512}, 0, true},
      {512, 50304, 768, {.tokens = 512}, 0, true},
  };
  return *products;
}

// `accumulator` is [token_lanes, ...].
Problem TokenProblem(const TokenProduct& p, std::vector<ProblemArgument> arguments,
                     ProblemArgument accumulator) {
  const bool continues =
      p.order.lanes_set != 0 || LanesSetAfter(p.order, p.rows) + 1 != uint64_t{1} << p.order.token_lanes;
  accumulator.fill = continues ? Fill::kWild : Fill::kOutput;
  accumulator.has_access = true;
  accumulator.access = continues ? Access::kUpdate : Access::kWrite;
  arguments.push_back(accumulator);
  return {.label = fmt::format("{} rows {}x{} token lanes {} set {:x}", p.rows, p.outputs, p.inputs,
                               p.order.token_lanes, p.order.lanes_set),
          .arguments = std::move(arguments),
          .attributes = TokenSumAttributes(p.order),
          .timed = p.timed};
}

}  // namespace

std::vector<Problem> LinearBackwardWeightsProblems() {
  std::vector<Problem> problems;
  for (const TokenProduct& p : TokenProducts()) {
    problems.push_back(
        TokenProblem(p,
                     {Matrix({p.rows, p.inputs}, Fill::kWild, p.padding),
                      Matrix({p.rows, p.outputs}, Fill::kWild, p.padding)},
                     Matrix({p.order.token_lanes, p.outputs, p.inputs}, Fill::kOutput, p.padding)));
  }
  return problems;
}

std::vector<Problem> BiasBackwardProblems() {
  std::vector<Problem> problems;
  for (const TokenProduct& p : TokenProducts()) {
    problems.push_back(TokenProblem(p, {Matrix({p.rows, p.outputs}, Fill::kWild, p.padding)},
                                    Matrix({p.order.token_lanes, p.outputs}, Fill::kOutput, 0)));
  }
  return problems;
}

}  // namespace samestep
