#include "kernels/sum/sum_kernels.h"

namespace samestep {

std::vector<Problem> AddProblems() {
  struct Size {
    Shape shape;
    int64_t padding = 0;
    bool timed = false;
  };
  std::vector<Problem> problems;
  for (const Size& s : {Size{{1}}, Size{{2, 3, 17}}, Size{{7, 33}, 5}, Size{{700, 3}, 1}, Size{{40000}},
                        Size{{2, 20000}, 3}, Size{{2048, 768}, 0, true}}) {
    const ProblemArgument in = {.shape = s.shape, .fill = Fill::kWild, .row_padding = s.padding};
    const ProblemArgument out = {.shape = s.shape, .fill = Fill::kOutput, .row_padding = s.padding};
    problems.push_back(
        {.label = s.shape.ToString(), .arguments = {in, in, out}, .attributes = {}, .timed = s.timed});
  }
  return problems;
}

std::vector<Problem> SumTreeProblems() {
  struct Size {
    int64_t lanes, rows, columns;
    int64_t padding = 0;
    bool timed = false;
  };
  std::vector<Problem> problems;
  for (const Size& s : {Size{1, 3, 17}, Size{2, 3, 17}, Size{3, 5, 33, 7}, Size{4, 1, 1}, Size{5, 2, 100},
                        Size{6, 9, 20, 1}, Size{7, 3, 64}, Size{8, 1, 700}, Size{13, 2, 18}, Size{64, 3, 19},
                        Size{63, 3, 19, 2}, Size{3, 2, 20000}, Size{4, 3072, 768, 0, true}}) {
    problems.push_back(
        {.label = fmt::format("{} lanes {}x{}", s.lanes, s.rows, s.columns),
         .arguments = {{.shape = {s.lanes, s.rows, s.columns}, .fill = Fill::kWild, .row_padding = s.padding},
                       {.shape = {s.rows, s.columns}, .fill = Fill::kOutput, .row_padding = s.padding}},
         .attributes = {},
         .timed = s.timed});
  }
  return problems;
}

std::vector<Problem> AddBiasProblems() {
  struct Size {
    Shape shape;
    int64_t padding = 0;
    bool timed = false;
  };
  std::vector<Problem> problems;
  for (const Size& s : {Size{{1, 1}}, Size{{2, 3, 17}}, Size{{7, 33}, 5}, Size{{700, 3}, 1}, Size{{1, 40000}},
                        Size{{2, 20000}, 3}, Size{{2048, 768}, 0, true}}) {
    problems.push_back({.label = s.shape.ToString(),
                        .arguments = {{.shape = s.shape, .fill = Fill::kWild, .row_padding = s.padding},
                                      {.shape = {s.shape.back()}, .fill = Fill::kWild},
                                      {.shape = s.shape, .fill = Fill::kOutput, .row_padding = s.padding}},
                        .attributes = {},
                        .timed = s.timed});
  }
  return problems;
}

}  // namespace samestep
