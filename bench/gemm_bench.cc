// gemm_bench: the products of a linear layer beside OpenBLAS and beside the machine's peak.
//
//   gemm_bench [threads] [rounds] [part of a shape's name] [SIMD target]
//
// Both take turns on the same data, so that a noisy machine disturbs both; medians, and the median of the
// ratios of each turn. Run with OPENBLAS_CORETYPE unset, so that OpenBLAS chooses the core itself.
#include <cblas.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>
#include <string>
#include <vector>

#include "base/parallel_for.h"
#include "fma_peak.h"
#include "kernels/linear/linear.h"
#include "numerics/simd_target.h"

extern "C" void openblas_set_num_threads(int threads);

namespace samestep {
namespace {

enum class Kind { kForward, kBackwardData, kBackwardWeights };

struct GemmShape {
  const char* name;
  Kind kind;
  int64_t rows, outputs, inputs;
};

// rows (tokens) x outputs x inputs
constexpr GemmShape kShapes[] = {
    {"forward 256x256x256", Kind::kForward, 256, 256, 256},
    {"forward 256x1024x256", Kind::kForward, 256, 1024, 256},
    {"forward 512x768x768", Kind::kForward, 512, 768, 768},
    {"forward 512x3072x768", Kind::kForward, 512, 3072, 768},
    {"forward 512x768x3072", Kind::kForward, 512, 768, 3072},
    {"forward 2048x768x768", Kind::kForward, 2048, 768, 768},
    {"forward 2048x2304x768", Kind::kForward, 2048, 2304, 768},
    {"forward 512x50304x768", Kind::kForward, 512, 50304, 768},
    {"backward data 256x256x256", Kind::kBackwardData, 256, 256, 256},
    {"backward data 512x768x768", Kind::kBackwardData, 512, 768, 768},
    {"backward data 512x3072x768", Kind::kBackwardData, 512, 3072, 768},
    {"backward data 2048x768x3072", Kind::kBackwardData, 2048, 768, 3072},
    {"backward data 256x50304x768", Kind::kBackwardData, 256, 50304, 768},
    {"backward weights 256x256x256", Kind::kBackwardWeights, 256, 256, 256},
    {"backward weights 512x768x3072", Kind::kBackwardWeights, 512, 768, 3072},
    {"backward weights 512x3072x768", Kind::kBackwardWeights, 512, 3072, 768},
    {"backward weights 2048x768x768", Kind::kBackwardWeights, 2048, 768, 768},
    {"backward weights 512x50304x768", Kind::kBackwardWeights, 512, 50304, 768},
};

// One thread is timed by the processor's time, which other programs disturb less; several by the clock.
double Seconds(int threads) {
  timespec now;
  ::clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Tensor Filled(const Shape& shape, uint32_t seed) {
  Tensor tensor = Tensor::Empty(shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    tensor.f32()[i] = static_cast<float>(seed >> 8) * 0x1p-24f - 0.5f;
  }
  return tensor;
}

double PeakGflops(int threads) {
  constexpr int64_t kIterations = 1 << 20;
  std::vector<double> rates;
  for (int round = 0; round < 31; ++round) {
    std::vector<double> done(static_cast<size_t>(threads));
    const double begin = Seconds(threads);
    ParallelFor(threads, [&](int64_t i) { done[static_cast<size_t>(i)] = FmaFlops(kIterations); });
    rates.push_back(1e-9 * std::accumulate(done.begin(), done.end(), 0.0) / (Seconds(threads) - begin));
  }
  return Median(rates);
}

struct Data {
  Tensor src, weights, dst;
};

void RunOurs(const GemmShape& s, const Data& d) {
  switch (s.kind) {
    case Kind::kForward:
      return LinearForward(d.src.view(), d.weights.view(), {}, d.dst.view(), 1);
    case Kind::kBackwardData:
      return LinearBackwardData(std::array{LinearFanIn{d.dst.view(), d.weights.view()}}, d.src.view(), 1);
    case Kind::kBackwardWeights:
      return LinearBackwardWeights(d.src.view(), d.dst.view(), d.weights.view(), {.tokens = s.rows});
  }
}

void RunOpenBlas(const GemmShape& s, const Data& d) {
  const auto m = static_cast<blasint>(s.rows), n = static_cast<blasint>(s.outputs),
             k = static_cast<blasint>(s.inputs);
  float *src = d.src.f32(), *weights = d.weights.f32(), *dst = d.dst.f32();
  switch (s.kind) {
    case Kind::kForward:
      return cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, src, k, weights, k, 0, dst, n);
    case Kind::kBackwardData:
      return cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, n, 1, dst, n, weights, k, 0, src,
                         k);
    case Kind::kBackwardWeights:
      return cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, k, m, 1, dst, n, src, k, 0, weights, k);
  }
}

template <typename Function>
double Gflops(const GemmShape& s, int repeats, const Function& run) {
  const int threads = ThreadCount();
  const double begin = Seconds(threads);
  for (int i = 0; i < repeats; ++i) run();
  return 2e-9 * static_cast<double>(s.rows * s.outputs * s.inputs) * repeats / (Seconds(threads) - begin);
}

void Compare(const GemmShape& s, int rounds, double peak) {
  const Data data = {Filled({s.rows, s.inputs}, 1), Filled({s.outputs, s.inputs}, 2),
                     Filled({s.rows, s.outputs}, 3)};
  const double flops = 2.0 * static_cast<double>(s.rows * s.outputs * s.inputs);
  const int repeats = std::max(1, static_cast<int>(1e9 / flops));
  std::vector<double> ours, theirs, ratios;
  for (int round = -1; round < rounds; ++round) {  // the first warms up
    const double a = Gflops(s, repeats, [&] { RunOurs(s, data); });
    const double b = Gflops(s, repeats, [&] { RunOpenBlas(s, data); });
    if (round < 0) continue;
    ours.push_back(a);
    theirs.push_back(b);
    ratios.push_back(a / b);
  }
  fmt::print("{:32} {:8.1f} {:8.1f} {:8.3f} {:7.0f} %\n", s.name, Median(ours), Median(theirs),
             Median(ratios), 100 * Median(ours) / peak);
  std::fflush(stdout);
}

}  // namespace
}  // namespace samestep

int main(int argc, char** argv) {
  using namespace samestep;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  const std::string part = argc > 3 ? argv[3] : "";
  if (argc > 4 && !ForceSimdTarget(argv[4]).ok()) return 1;
  SetSchedule({.threads = threads});
  openblas_set_num_threads(threads);
  const double peak = PeakGflops(threads);
  fmt::print("{} threads; multiply-adds in registers {:.1f} GFLOP/s; OpenBLAS core {}\n", threads, peak,
             openblas_get_corename());
  fmt::print("{:32} {:>8} {:>8} {:>8} {:>9}\n", "rows x outputs x inputs", "ours", "OpenBLAS", "ratio",
             "of peak");
  for (const GemmShape& s : kShapes) {
    if (std::string(s.name).find(part) != std::string::npos) Compare(s, rounds, peak);
  }
}
