#include "plan/measure.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/parallel_for.h"
#include "kernels/linear/linear.h"
#include "kernels/sum/sum.h"
#include "plan/held.h"

namespace samestep {
namespace {

// The shortest of several calls, the first of which only warms up; stops after `seconds`.
double FastestCall(double seconds, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const Clock::time_point begin = Clock::now();
  call();
  double fastest = since(begin);
  while (since(begin) < seconds) {
    const Clock::time_point start = Clock::now();
    call();
    fastest = std::min(fastest, since(start));
  }
  return std::max(fastest, 1e-9);
}

double OperationsPerSecond(const PlanConfig& config) {
  constexpr int64_t kMostRows = 1024, kMostFeatures = 4096;  // 34 GFLOP: a second on the slowest machines
  const DecoderConfig& c = config.model;
  const int64_t batch = std::min(config.micro_batch, config.global_batch);
  const int64_t rows = std::min((Count(batch) * c.sequence).value(), kMostRows);
  const int64_t inputs = std::min(c.hidden, kMostFeatures);
  const int64_t outputs =
      std::min(std::max(c.intermediate / config.layout.tensor, int64_t{1}), kMostFeatures);
  const Tensor src = Tensor::Zeros({rows, inputs}), weights = Tensor::Zeros({outputs, inputs});
  Tensor dst = Tensor::Empty({rows, outputs});
  std::fill_n(src.f32(), src.elements(), 0.5f);
  std::fill_n(weights.f32(), weights.elements(), 0.25f);
  const double seconds =
      FastestCall(0.5, [&] { LinearForward(src.view(), weights.view(), TensorView{}, dst.view(), 1); });
  return 2.0 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs) /
         seconds;
}

double BytesPerSecond() {
  const Shape shape{16384, 1024};  // 64 MiB
  const Tensor left = Tensor::Zeros(shape), right = Tensor::Zeros(shape), dst = Tensor::Zeros(shape);
  const double seconds = FastestCall(0.3, [&] { Add(left.view(), right.view(), dst.view()); });
  return 3.0 * static_cast<double>(dst.bytes()) / seconds;
}

}  // namespace

MachineSpeed MeasureMachine(const PlanConfig& config) {
  return {OperationsPerSecond(config), BytesPerSecond(), ThreadCount()};
}

double StepSeconds(const PlanConfig& config, const std::vector<RankPlan>& ranks, const MachineSpeed& speed,
                   int ranks_on_a_machine) {
  double longest = 0;
  for (const RankPlan& rank : ranks) {
    longest = std::max(longest, rank.Operations().real() / speed.operations_per_second +
                                    rank.traffic.real() / speed.bytes_per_second);
  }
  const Layout& layout = config.layout;
  const int64_t samples = SamplesOf(layout, {}, config.global_batch).count;
  const double batches = static_cast<double>((samples + config.micro_batch - 1) / config.micro_batch);
  const double bubble = static_cast<double>(layout.pipeline - 1) / layout.chunks;
  return longest * ranks_on_a_machine * (batches + bubble) / batches;
}

}  // namespace samestep
