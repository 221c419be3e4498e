#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "comm/world.h"
#include "kernels/exact_sum/exact_sum.h"
#include "parallel/exchange.h"
#include "train/replicas.h"

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

Trainer::Trainer(const TrainerConfig& config, TokenReader reader, ProcessGrid& grid)
    : config_(config),
      reader_(std::move(reader)),
      grid_(&grid),
      samples_(SamplesOf(grid.layout(), grid.place(), config.global_batch)),
      model_(config.model, std::min(config.micro_batch, samples_.count), grid,
             (samples_.count + config.micro_batch - 1) / config.micro_batch),
      optimizer_(model_.parameters(), config.optimizer, grid),
      tokens_(Tensor::Empty({samples_.count, config.model.sequence}, DType::kI32)),
      targets_(Tensor::Empty({samples_.count, config.model.sequence}, DType::kI32)) {}

void Trainer::Initialize() {
  model_.parameters().Initialize(config_.seed, config_.model.init_std);
  for (std::vector<Tensor>* moments : {&optimizer_.first_moments(), &optimizer_.second_moments()}) {
    for (Tensor& t : *moments) {
      if (!t.empty()) std::fill_n(t.f32(), t.elements(), 0.0f);
    }
  }
  position_ = {};
}

Result<int64_t> Trainer::ReadGlobalBatch() {
  ScopedPhase phase(Phase::kData);
  const int64_t s = config_.model.sequence;
  std::vector<int32_t> sample(static_cast<size_t>(s + 1));
  int64_t unmasked = 0;
  Status status;
  for (int64_t i = 0; i < samples_.count && status.ok(); ++i) {
    status = reader_(position_.consumed_samples + samples_.first + i, sample);
    if (status.ok()) unmasked += SplitTokens(sample, tokens_.i32() + i * s, targets_.i32() + i * s);
  }
  const bool counts = grid_->place().tensor == 0 && grid_->first_stage();
  uint64_t sums[] = {counts ? static_cast<uint64_t>(unmasked) : 0, status.ok() ? 0u : 1u};
  grid_->world().SumIntegers(sums);
  if (sums[1] != 0) return Agree(grid_->world(), status);
  const Shape global{config_.global_batch, s};
  NoteTensor("tokens", tokens_.view().Within(global, {samples_.first, 0}));
  NoteTensor("targets", targets_.view().Within(global, {samples_.first, 0}));
  if (sums[0] == 0) {
    return InvalidError("all targets of step {} are masked; check the padding and masks of the data",
                        position_.step + 1);
  }
  return static_cast<int64_t>(sums[0]);
}

std::vector<MicroBatch> Trainer::MicroBatches() const {
  std::vector<MicroBatch> batches;
  for (int64_t first = 0; first < samples_.count; first += config_.micro_batch) {
    const int64_t count = std::min(config_.micro_batch, samples_.count - first);
    batches.push_back(model_.MakeBatch(samples_.first + first, config_.global_batch, config_.model.data_lanes,
                                       tokens_.view().Slice(first, count),
                                       targets_.view().Slice(first, count)));
  }
  return batches;
}

void Trainer::SumLosses(const TensorView& state) const {
  // Tensor ranks of the last stage have the same; the other stages have none.
  if (grid_->place().tensor != 0) std::fill_n(state.i64(), state.elements(), 0);
  SumExact(grid_->world(), state);
}

Result<StepReport> Trainer::Step() {
  StepReport report;
  report.step = position_.step + 1;
  BeginIteration(report.step);
  SAMESTEP_ASSIGN_OR_RETURN(report.targets, ReadGlobalBatch());
  const float target_weight = 1.0f / static_cast<float>(report.targets);

  Tensor own_loss = Tensor::Zeros({kExactSumWords}, DType::kI64),
         loss = Tensor::Zeros({kExactSumWords}, DType::kI64);
  model_.RunStep(MicroBatches(), target_weight, own_loss.view());
  std::copy_n(own_loss.view().i64(), kExactSumWords, loss.view().i64());
  SumLosses(loss.view());
  report.loss = RoundExactSum(loss.view()) / static_cast<double>(report.targets);
  report.norm = optimizer_.GradientNorm();
  NoteValue("loss", std::bit_cast<uint64_t>(report.loss));
  NoteValue("norm", std::bit_cast<uint64_t>(report.norm));
  if (!std::isfinite(report.loss) || !std::isfinite(report.norm)) {
    EndIteration();
    return NotFinite(report);
  }
  report.learning_rate = LearningRate(config_.schedule, report.step);
  optimizer_.Update(report.step, report.learning_rate, report.norm);
  if (Status status = CheckReplicas(own_loss.view()); !status.ok()) {
    EndIteration();
    return status;
  }

  report.consumed_samples = position_.consumed_samples + config_.global_batch;
  position_.step = report.step;
  position_.consumed_samples = report.consumed_samples;
  ExtendDigest(report);
  report.digest = position_.digest;
  EndIteration();
  return report;
}

Status Trainer::NotFinite(const StepReport& report) const {
  std::string tensor;  // first by name, of all ranks
  for (const std::string& name : grid_->world().Gather(optimizer_.FirstNotFinite())) {
    if (!name.empty() && (tensor.empty() || name < tensor)) tensor = name;
  }
  return NotFiniteError(
      "step {}: loss {} and gradient norm {} must be finite; the first gradient that is not is {}. Nothing "
      "was "
      "updated; begin a new run (another --run folder) with a lower optimizer.lr, or trace this step "
      "(SAMESTEP_TRACE)",
      report.step, report.loss, report.norm, tensor.empty() ? "none (the loss itself)" : tensor);
}

// Read from memory again: what was computed along with an update says nothing about what became of it.
Status Trainer::CheckReplicas(const TensorView& loss_state) {
  if (grid_->layout().tensor == 1) return {};
  ReplicaRecord record;
  record.Add("the token losses",
             DigestOf({reinterpret_cast<const char*>(loss_state.data), kExactSumWords * 8}));
  const std::vector<Parameter*>& order = model_.parameters().InOrder();
  for (size_t i = 0; i < order.size(); ++i) {
    if (!order[i]->replicated || !order[i]->owned()) continue;
    record.Add(order[i]->name, FingerprintOf(order[i]->owned_weights()));
    record.Add("first_moment." + order[i]->name, FingerprintOf(optimizer_.first_moments()[i].view()));
    record.Add("second_moment." + order[i]->name, FingerprintOf(optimizer_.second_moments()[i].view()));
  }
  return CompareReplicas(*grid_, position_.step + 1, record);
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
  const Range part = PartOf(count, grid_->layout().data, grid_->place().data);
  const int64_t most = std::min(config_.micro_batch, samples_.count);
  uint64_t unmasked = 0, failed = 0;
  Status status;
  for (int64_t first = part.first; first < part.end(); first += most) {
    const int64_t n = std::min(most, part.end() - first);
    for (int64_t i = 0; i < n && status.ok(); ++i) {
      status = reader(first + i, sample);
      if (!status.ok()) std::fill(sample.begin(), sample.end(), 0);  // the others wait for this batch
      unmasked += static_cast<uint64_t>(SplitTokens(sample, tokens_.i32() + i * s, targets_.i32() + i * s));
    }
    model_.Evaluate(
        model_.MakeBatch(first, count, 1, tokens_.view().Slice(0, n), targets_.view().Slice(0, n)),
        loss.view());
  }
  SumLosses(loss.view());
  failed = status.ok() ? 0 : 1;
  if (grid_->place().tensor != 0 || !grid_->first_stage()) unmasked = 0;
  uint64_t sums[] = {unmasked, failed};
  grid_->world().SumIntegers(sums);
  if (sums[1] != 0) return Agree(grid_->world(), status);
  if (sums[0] == 0) return InvalidError("no unmasked target in {} evaluation samples", count);
  return RoundExactSum(loss.view()) / static_cast<double>(sums[0]);
}

}  // namespace samestep
