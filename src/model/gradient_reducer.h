// gradient_reducer.h: from the partial gradients of the data ranks to the sums, each on the rank that owns
// it.
//
//   GradientReducer reducer(grid, parameters);
//   reducer.Start(*p);                  // when the last sample of this rank is in p's sum; overlaps what
//   follows reducer.Finish();                   // every owned parameter's `gradient`
//
// Slices of rows travel to their owners, which add them: half of what an all-reduce does. The other half is
// the optimizer's, which sends updated weights.
//
// Determinism: slices are added by the balanced tree over data ranks, which continues that over the lanes of
// each (numerics page 1.1 and 2).
#pragma once

#include <map>

#include "model/parameter.h"

namespace samestep {

class GradientReducer {
 public:
  GradientReducer(ProcessGrid& grid, ParameterSet& parameters) : grid_(&grid), parameters_(&parameters) {}

  void Start(Parameter& parameter);
  void Finish();

 private:
  // One sum on its way.
  struct Move {
    TensorView partial;  // of the whole shard
    Tensor parts;        // [data ranks, own rows, ..]
    Pending pending;
  };
  void StartSum(Parameter& p, GradientSum& sum, std::map<std::string, Move>& moves);
  // [own rows, ..]: the sum over data ranks.
  TensorView FinishSum(Parameter& p, std::map<std::string, Move>& moves, Tensor& memory);
  void AddTied(Parameter& p);
  void PassTiedGradient(Parameter& p, const TensorView& gradient);

  ProcessGrid* grid_;
  ParameterSet* parameters_;
  std::map<std::string, Move> moves_, other_moves_;
  std::map<std::string, Tensor> sums_, other_sums_;  // with several data ranks
  Tensor tied_;
};

}  // namespace samestep
