// optimizer.h: gradient norm, clipping and AdamW over all parameters; each rank does its own rows.
//
//   Optimizer optimizer(parameters, config, grid);
//   double norm = optimizer.GradientNorm();                  // before clipping, of the whole model
//   optimizer.Update(step, learning_rate, norm);
//   optimizer.fingerprints()[i]                              // of parameters.InOrder()[i], after the update
//
// Moments exist for the owned rows alone. Updated rows go to the other data ranks, so that each has its
// whole shard again.
//
// Determinism: the norm is an exact sum; the update is element by element; scalars are the exact values of
// the recipe's decimals, rounded once (numerics page, 5, AdamW). Between ranks go integers and bytes.
#pragma once

#include <string>
#include <vector>

#include "fingerprint/fingerprint.h"
#include "model/parameter.h"
#include "numerics/decimal.h"

namespace samestep {

struct OptimizerConfig {
  Decimal beta1, beta2, eps, weight_decay;
  Decimal max_norm;  // zero: gradients are not clipped
};

class Optimizer {
 public:
  Optimizer(ParameterSet& parameters, const OptimizerConfig& config,
            ProcessGrid& grid = ProcessGrid::Alone());

  // binary64 sqrt of the exact sum of squares of all gradients.
  double GradientNorm() const;
  // Weights, moments and fingerprints.
  void Update(int64_t step, float learning_rate, double norm);

  // Of all parameters of the model, the same on every rank.
  const std::vector<Fingerprint>& fingerprints() const { return fingerprints_; }
  // The name of the first gradient of this rank that is not finite; empty if all are.
  std::string FirstNotFinite() const;

  // State of the owned rows, in the order of the parameters; empty for those that this rank does not own.
  std::vector<Tensor>& first_moments() { return first_moments_; }
  std::vector<Tensor>& second_moments() { return second_moments_; }

 private:
  float Clip(double norm) const;
  // Whether this rank's rows count in sums over all ranks.
  bool Counts(const Parameter& p) const { return p.owned() && (!p.replicated || grid_->place().tensor == 0); }
  void PassTiedWeights();
  ParameterSet* parameters_;
  OptimizerConfig config_;
  ProcessGrid* grid_;
  std::vector<Tensor> first_moments_, second_moments_;
  std::vector<Fingerprint> fingerprints_;
};

}  // namespace samestep
