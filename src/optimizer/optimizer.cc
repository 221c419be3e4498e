#include "optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/exact_sum/exact_sum.h"

namespace samestep {

Optimizer::Optimizer(ParameterSet& parameters, const OptimizerConfig& config)
    : parameters_(&parameters), config_(config) {
  for (const Parameter* p : parameters.InOrder()) {
    first_moments_.push_back(Tensor::Zeros(p->shape()));
    second_moments_.push_back(Tensor::Zeros(p->shape()));
    fingerprints_.emplace_back();
  }
}

double Optimizer::GradientNorm() const {
  ScopedPhase phase(Phase::kOptimizer);
  Tensor state = Tensor::Zeros({kExactSumWords}, DType::kI64);
  bool accumulate = false;
  for (const Parameter* p : parameters_->InOrder()) {
    ScopedModule module(p->name);
    ExactSumOf(p->gradient, state.view(), /*squares=*/true, accumulate);
    accumulate = true;
  }
  return std::sqrt(RoundExactSum(state.view()));
}

std::string Optimizer::FirstNotFinite() const {
  for (const Parameter* p : parameters_->InOrder()) {
    const float* g = p->gradient.f32();
    if (std::any_of(g, g + p->gradient.elements(), [](float x) { return !std::isfinite(x); })) return p->name;
  }
  return "";
}

float Optimizer::Clip(double norm) const {
  if (config_.max_norm.IsZero()) return 1.0f;
  return static_cast<float>(std::min(1.0, config_.max_norm.ToDouble() / (norm + 1e-6)));
}

void Optimizer::Update(int64_t step, float learning_rate, double norm) {
  ScopedPhase phase(Phase::kOptimizer);
  AdamWScalars scalars;
  scalars.lr = learning_rate;
  scalars.clip = Clip(norm);
  scalars.c1 = InverseOneMinusPower(config_.beta1, step);
  scalars.c2 = InverseOneMinusPower(config_.beta2, step);
  scalars.beta1 = config_.beta1.ToFloat();
  scalars.beta2 = config_.beta2.ToFloat();
  scalars.one_minus_beta1 = OneMinus(config_.beta1);
  scalars.one_minus_beta2 = OneMinus(config_.beta2);
  scalars.eps = config_.eps.ToFloat();
  const std::vector<Parameter*>& order = parameters_->InOrder();
  for (size_t i = 0; i < order.size(); ++i) {
    ScopedModule module(order[i]->name);
    scalars.weight_decay = order[i]->decays() ? config_.weight_decay.ToFloat() : 0.0f;
    Tensor sums = Tensor::Empty({2}, DType::kU64);
    AdamW(order[i]->weights.view(), order[i]->gradient, first_moments_[i].view(), second_moments_[i].view(),
          sums.view(), scalars);
    fingerprints_[i] = {sums.view().u64()[0], sums.view().u64()[1]};
  }
}

}  // namespace samestep
