// optimizer.h: gradient norm, clipping and AdamW over all parameters.
//
//   Optimizer optimizer(parameters, config);
//   double norm = optimizer.GradientNorm();                  // before clipping
//   optimizer.Update(step, learning_rate, norm);             // weights, moments, fingerprints
//   optimizer.fingerprints()[i]                              // of parameters.InOrder()[i], after the update
//
// Determinism: the norm is an exact sum; the update is element by element; scalars are the exact values of
// the recipe's decimals, rounded once (numerics page, 5, AdamW).
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
  Optimizer(ParameterSet& parameters, const OptimizerConfig& config);

  // binary64 sqrt of the exact sum of squares of all gradients.
  double GradientNorm() const;
  void Update(int64_t step, float learning_rate, double norm);

  const std::vector<Fingerprint>& fingerprints() const { return fingerprints_; }
  // The name of the first gradient that is not finite; empty if all are.
  std::string FirstNotFinite() const;

  // State, in the order of the parameters.
  std::vector<Tensor>& first_moments() { return first_moments_; }
  std::vector<Tensor>& second_moments() { return second_moments_; }

 private:
  float Clip(double norm) const;
  ParameterSet* parameters_;
  OptimizerConfig config_;
  std::vector<Tensor> first_moments_, second_moments_;
  std::vector<Fingerprint> fingerprints_;
};

}  // namespace samestep
