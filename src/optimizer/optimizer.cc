#include "optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/exact_sum/exact_sum.h"
#include "parallel/exchange.h"

namespace samestep {
namespace {

constexpr int kWeightsTag = 7;
constexpr int kTiedTag = 8;

}  // namespace

Optimizer::Optimizer(ParameterSet& parameters, const OptimizerConfig& config, ProcessGrid& grid)
    : parameters_(&parameters), config_(config), grid_(&grid) {
  for (const Parameter* p : parameters.InOrder()) {
    const bool owned = p->owned();
    first_moments_.push_back(owned ? Tensor::Zeros(p->owned_shard().local_shape()) : Tensor());
    second_moments_.push_back(owned ? Tensor::Zeros(p->owned_shard().local_shape()) : Tensor());
    fingerprints_.emplace_back();
  }
}

double Optimizer::GradientNorm() const {
  ScopedPhase phase(Phase::kOptimizer);
  Tensor state = Tensor::Zeros({kExactSumWords}, DType::kI64);
  bool accumulate = false;
  for (const Parameter* p : parameters_->InOrder()) {
    if (!Counts(*p)) continue;
    ScopedModule module(p->name);
    const Shard own = p->owned_shard();
    for (size_t box = 0; box < own.boxes.size(); ++box) {
      ExactSumOf(own.View(p->gradient, box), state.view(), /*squares=*/true, accumulate);
      accumulate = true;
    }
  }
  SumExact(grid_->world(), state.view());
  return std::sqrt(RoundExactSum(state.view()));
}

std::string Optimizer::FirstNotFinite() const {
  for (const Parameter* p : parameters_->InOrder()) {
    if (!p->owned()) continue;
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
  std::vector<uint64_t> sums(2 * order.size());
  std::vector<Pending> moves;
  for (size_t i = 0; i < order.size(); ++i) {
    const Parameter& p = *order[i];
    if (!p.owned()) continue;
    ScopedModule module(p.name);
    scalars.weight_decay = p.decays() ? config_.weight_decay.ToFloat() : 0.0f;
    const Shard own = p.owned_shard();
    Fingerprint total;
    for (size_t box = 0; box < own.boxes.size(); ++box) {
      Tensor fingerprint = Tensor::Empty({2}, DType::kU64);
      AdamW(own.View(p.owned_weights(), box), own.View(p.gradient, box),
            own.View(first_moments_[i].view(), box), own.View(second_moments_[i].view(), box),
            fingerprint.view(), scalars);
      total += {fingerprint.view().u64()[0], fingerprint.view().u64()[1]};
    }
    if (grid_->data().size() > 1)
      moves.push_back(StartGatherRows(grid_->data(), p.weights.view(), kWeightsTag));
    if (!Counts(p)) continue;
    sums[2 * i] = total.a;
    sums[2 * i + 1] = total.b;
  }
  moves.clear();  // waits
  PassTiedWeights();
  grid_->world().SumIntegers(sums);
  for (size_t i = 0; i < order.size(); ++i) fingerprints_[i] = {sums[2 * i], sums[2 * i + 1]};
}

// The last stage's output projection is the embedding of the first: each rank sends the rows that it owns,
// and the last stage's data ranks gather them.
void Optimizer::PassTiedWeights() {
  Communicator& stages = grid_->pipeline();
  if (stages.size() == 1) return;
  for (const Parameter* p : parameters_->Held()) {
    if (!p->tied) continue;
    const TensorView own = p->owned_weights();
    const Transfer transfer{p->copy ? 0 : stages.size() - 1, own.data,
                            static_cast<size_t>(own.elements()) * sizeof(float)};
    const std::span<const Transfer> one(&transfer, 1), none;
    stages.Start(p->copy ? none : one, p->copy ? one : none, kTiedTag).Wait();
    if (p->copy) StartGatherRows(grid_->data(), p->weights.view(), kWeightsTag).Wait();
  }
}

}  // namespace samestep
