#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/exact_sum/exact_sum.h"

namespace samestep {
namespace {

// Splits sequence + 1 tokens into inputs and targets; returns the number of unmasked targets.
int64_t SplitTokens(std::span<const int32_t> tokens, int32_t* inputs, int32_t* targets) {
  int64_t unmasked = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    inputs[i] = std::max(tokens[i], 0);
    targets[i] = tokens[i + 1];
    unmasked += targets[i] >= 0;
  }
  return unmasked;
}

}  // namespace

Trainer::Trainer(const TrainerConfig& config, TokenReader reader)
    : config_(config),
      reader_(std::move(reader)),
      model_(config.model, config.micro_batch),
      optimizer_(model_.parameters(), config.optimizer),
      tokens_(Tensor::Empty({config.global_batch, config.model.sequence}, DType::kI32)),
      targets_(Tensor::Empty({config.global_batch, config.model.sequence}, DType::kI32)) {}

void Trainer::Initialize() {
  model_.parameters().Initialize(config_.seed, config_.model.init_std);
  for (Tensor& m : optimizer_.first_moments()) std::fill_n(m.f32(), m.elements(), 0.0f);
  for (Tensor& v : optimizer_.second_moments()) std::fill_n(v.f32(), v.elements(), 0.0f);
  position_ = {};
}

Result<int64_t> Trainer::ReadGlobalBatch() {
  ScopedPhase phase(Phase::kData);
  const int64_t s = config_.model.sequence;
  std::vector<int32_t> sample(static_cast<size_t>(s + 1));
  int64_t unmasked = 0;
  for (int64_t i = 0; i < config_.global_batch; ++i) {
    SAMESTEP_RETURN_IF_ERROR(reader_(position_.consumed_samples + i, sample));
    unmasked += SplitTokens(sample, tokens_.i32() + i * s, targets_.i32() + i * s);
  }
  NoteTensor("tokens", tokens_.view());
  NoteTensor("targets", targets_.view());
  if (unmasked == 0) {
    return InvalidError("all targets of step {} are masked; check the padding and masks of the data",
                        position_.step + 1);
  }
  return unmasked;
}

MicroBatch Trainer::BatchOf(int64_t first, int64_t count, int64_t global_batch, int data_lanes) {
  return MakeMicroBatch(first, global_batch, data_lanes, tokens_.view().Slice(first, count),
                        targets_.view().Slice(first, count));
}

Result<StepReport> Trainer::Step() {
  StepReport report;
  report.step = position_.step + 1;
  BeginIteration(report.step);
  SAMESTEP_ASSIGN_OR_RETURN(report.targets, ReadGlobalBatch());
  const float target_weight = 1.0f / static_cast<float>(report.targets);

  model_.BeginStep();
  Tensor loss = Tensor::Zeros({kExactSumWords}, DType::kI64);
  const int64_t n = config_.global_batch;
  for (int64_t first = 0; first < n; first += config_.micro_batch) {
    CallContext::Current().micro_batch = static_cast<int32_t>(first / config_.micro_batch);
    const MicroBatch batch =
        BatchOf(first, std::min(config_.micro_batch, n - first), n, config_.model.data_lanes);
    model_.ForwardBackward(batch, target_weight, loss.view());
  }
  CallContext::Current().micro_batch = 0;
  model_.FinishGradients();
  report.loss = RoundExactSum(loss.view()) / static_cast<double>(report.targets);
  report.norm = optimizer_.GradientNorm();
  NoteValue("loss", std::bit_cast<uint64_t>(report.loss));
  NoteValue("norm", std::bit_cast<uint64_t>(report.norm));
  if (!std::isfinite(report.loss) || !std::isfinite(report.norm)) {
    EndIteration();
    const std::string tensor = optimizer_.FirstNotFinite();
    return NotFiniteError(
        "step {}: loss {} and gradient norm {} must be finite; the first gradient that is not is {}. Nothing "
        "was "
        "updated; begin a new run (another --run folder) with a lower optimizer.lr, or trace this step "
        "(SAMESTEP_TRACE)",
        report.step, report.loss, report.norm, tensor.empty() ? "none (the loss itself)" : tensor);
  }
  report.learning_rate = LearningRate(config_.schedule, report.step);
  optimizer_.Update(report.step, report.learning_rate, report.norm);

  report.consumed_samples = position_.consumed_samples + n;
  position_.step = report.step;
  position_.consumed_samples = report.consumed_samples;
  ExtendDigest(report);
  report.digest = position_.digest;
  EndIteration();
  return report;
}

void Trainer::ExtendDigest(const StepReport& report) {
  RecordWriter record;
  record.U64(static_cast<uint64_t>(report.step)).U64(static_cast<uint64_t>(report.consumed_samples));
  record.F64(report.loss).F64(report.norm);
  for (const Fingerprint& f : optimizer_.fingerprints()) record.Add(f);
  position_.digest = ChainDigest(position_.digest, record.bytes());
  NoteValue("digest.high", position_.digest.high);  // the whole state, for traces of level `iteration`
  NoteValue("digest.low", position_.digest.low);
}

Result<double> Trainer::Evaluate(const TokenReader& reader, int64_t count) {
  const int64_t s = config_.model.sequence;
  std::vector<int32_t> sample(static_cast<size_t>(s + 1));
  Tensor loss = Tensor::Zeros({kExactSumWords}, DType::kI64);
  int64_t unmasked = 0;
  for (int64_t first = 0; first < count; first += config_.micro_batch) {
    const int64_t n = std::min(config_.micro_batch, count - first);
    for (int64_t i = 0; i < n; ++i) {
      SAMESTEP_RETURN_IF_ERROR(reader(first + i, sample));
      unmasked += SplitTokens(sample, tokens_.i32() + i * s, targets_.i32() + i * s);
    }
    model_.Evaluate(MakeMicroBatch(first, count, 1, tokens_.view().Slice(0, n), targets_.view().Slice(0, n)),
                    loss.view());
  }
  if (unmasked == 0) return InvalidError("no unmasked target in {} evaluation samples", count);
  return RoundExactSum(loss.view()) / static_cast<double>(unmasked);
}

}  // namespace samestep
