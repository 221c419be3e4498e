// Time of each registered kernel on its timed problems: kernel_bench [part of a name] [threads] [SIMD
// target].
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/parallel_for.h"
#include "kernels/problem_memory.h"
#include "kernels/registry.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

// The shortest of several runs, in seconds.
double Time(const Kernel& kernel, ProblemMemory& memory) {
  double best = 1e9, spent = 0;
  for (int run = 0; run < 50 && spent < 0.5; ++run) {
    memory.Reset();
    const auto start = std::chrono::steady_clock::now();
    kernel.fast(memory.call());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

void Report(const Kernel& kernel, const Problem& problem) {
  ProblemMemory memory(kernel, problem, {});
  int64_t largest = 0;
  double bytes = 0;  // of arguments, each read or written once, or both
  for (int i = 0; i < memory.call().argument_count(); ++i) {
    const Argument& argument = memory.call().argument(i);
    if (!argument.view.present()) continue;
    largest = std::max(largest, argument.view.elements());
    bytes += static_cast<double>(argument.view.elements() * BitsOf(argument.view.dtype)) / 8 *
             (argument.access == Access::kUpdate ? 2 : 1);
  }
  const double seconds = Time(kernel, memory);
  fmt::print("{:<32} {:<40} {:9.3f} ms {:8.3f} ns/element {:7.1f} GB/s\n", kernel.name, problem.label,
             seconds * 1e3, seconds * 1e9 / static_cast<double>(largest), bytes / seconds / 1e9);
}

int Main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  SetSchedule({.threads = argc > 2 ? std::atoi(argv[2]) : 1});
  if (const Status status = ForceSimdTarget(argc > 3 ? argv[3] : "best"); !status.ok()) {
    fmt::print(stderr, "{}\n", status.message());
    return 3;
  }
  fmt::print("{}, {} threads; per element of the largest argument\n", CurrentSimdTarget(), ThreadCount());
  for (const Kernel* kernel : AllKernels()) {
    if (kernel->name.find(part) == std::string::npos) continue;
    for (const Problem& problem : kernel->problems()) {
      if (problem.timed) Report(*kernel, problem);
    }
  }
  return 0;
}

}  // namespace
}  // namespace samestep

int main(int argc, char** argv) { return samestep::Main(argc, argv); }
