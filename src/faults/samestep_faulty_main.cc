// samestep-faulty: the same program with one planted fault: `samestep-faulty --fault SPEC train …`. It shows
// that `samestep diff` finds the kernel. It says what it is on standard error, and is never installed.
#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "comm/world.h"
#include "faults/fault_injector.h"

int main(int argc, char** argv) {
  using namespace samestep;
  if (argc > 1 && std::string_view(argv[1]) == "--help") {
    fmt::print(
        "samestep-faulty --fault "
        "kernel=NAME,iteration=N,kind=KIND[,module=M,occurrence=N,output=ROLE,bit=N,rank=N] "
        "COMMAND...\nKinds: chain-order, bit-flip, stale, jitter, mpi-sum. Exit code 3 if the fault never "
        "struck.\n\n");
  }
  std::vector<char*> rest;
  std::unique_ptr<FaultInjector> injector;
  bool seen = false;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--fault" || i + 1 == argc || seen) {
      rest.push_back(argv[i]);
      continue;
    }
    seen = true;
    Result<FaultSpec> spec = ParseFaultSpec(argv[++i]);
    if (!spec.ok()) return Output(false).Error(spec.status());
    const std::vector<LauncherView> launchers = LaunchersInEnvironment();
    const int64_t rank = launchers.empty() ? 0 : launchers.front().rank;
    const int64_t ranks = launchers.empty() ? 1 : launchers.front().ranks;
    if (spec->rank >= ranks) {
      return Output(false).Error(
          UsageError("fault: rank={}; there are the ranks 0 to {}", spec->rank, ranks - 1));
    }
    if (spec->StrikesRank(rank)) injector = std::make_unique<FaultInjector>(*spec);
  }
  const int count = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  const int status = CliMain(count, rest.data());
  // A demonstration whose fault never struck demonstrates nothing.
  return status == 0 && injector != nullptr && !injector->struck() ? 3 : status;
}
