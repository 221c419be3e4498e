#include "comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "comm/mpi_communicator.h"

namespace samestep {
namespace {

constexpr int64_t kTimeLimit = 600, kMostSeconds = 100'000'000;  // three years: no overflow of a clock

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> NumberInEnvironment(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : Number(text);
}

std::string Says(const LauncherView& view) {
  return fmt::format("{} says rank {} of {}", view.name, view.rank, view.ranks);
}

// What a message about a launcher's view should advise.
std::string Mend(const LauncherView& launcher, const LauncherView& mpi) {
  if (launcher.name == "torchrun") return "start it with mpirun, without the variables RANK and WORLD_SIZE";
  if (mpi.ranks > 1) return "start it with one launcher";
  if (launcher.name == "Slurm") return "start it with mpirun, or with srun --mpi=pmix (pmi2 for MPICH)";
  const bool open_mpi = mpi.name == "Open MPI";
  return fmt::format("start it with {}, or build with --preset {}",
                     open_mpi ? "Open MPI's mpirun" : "MPICH's mpiexec", open_mpi ? "mpich" : "release");
}

// A code as its number and the message behind it; empty: ok.
std::string Packed(const Status& status) {
  if (status.ok()) return "";
  return std::string(1, static_cast<char>(status.code())) + status.message();
}

Status Unpacked(const std::string& text, const std::string& prefix) {
  return Status(static_cast<StatusCode>(text[0]), prefix + text.substr(1));
}

}  // namespace

std::vector<LauncherView> LaunchersInEnvironment() {
  constexpr const char* kVariables[][3] = {{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"Hydra", "PMI_RANK", "PMI_SIZE"},
                                           {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                           {"torchrun", "RANK", "WORLD_SIZE"}};
  std::vector<LauncherView> views;
  for (const auto& [name, rank_variable, ranks_variable] : kVariables) {
    const std::optional<int64_t> rank = NumberInEnvironment(rank_variable);
    const std::optional<int64_t> ranks = NumberInEnvironment(ranks_variable);
    if (!rank || !ranks || *rank < 0 || *rank >= *ranks) continue;
    // Below mpirun, Slurm's variables are those of the step that started its daemons.
    if (std::string_view(name) == "Slurm" && !views.empty()) continue;
    views.push_back({.name = name, .rank = *rank, .ranks = *ranks});
  }
  return views;
}

Result<bool> NeedsMpi(const std::vector<LauncherView>& launchers) {
  bool needed = false, only_torchrun = true;
  for (const LauncherView& launcher : launchers) {
    const bool starts_mpi = launcher.name == "Open MPI" || launcher.name == "Hydra";
    needed |= starts_mpi || launcher.ranks > 1;
    only_torchrun &= launcher.name == "torchrun";
  }
  if (!needed) return false;
  if (only_torchrun) {
    const LauncherView& torchrun = launchers.front();
    return UsageError(
        "torchrun's variables RANK and WORLD_SIZE say rank {} of {}, but torchrun starts no MPI: start with "
        "`mpirun -n {}` instead, or unset them to run as one process",
        torchrun.rank, torchrun.ranks, torchrun.ranks);
  }
  if (!MpiName().empty()) return true;
  for (const LauncherView& launcher : launchers) {
    if (launcher.ranks == 1) continue;
    return UsageError("{}, but this program was built without MPI: configure it with -DSAMESTEP_MPI=ON",
                      Says(launcher));
  }
  return false;
}

Status CheckLaunchers(const std::vector<LauncherView>& launchers, const LauncherView& mpi) {
  for (const LauncherView& launcher : launchers) {
    if (launcher.rank == mpi.rank && launcher.ranks == mpi.ranks) continue;
    return UsageError("{}, MPI says {} of {}: this program was built for {}; {}", Says(launcher), mpi.rank,
                      mpi.ranks, mpi.name, Mend(launcher, mpi));
  }
  return {};
}

Result<int64_t> TimeLimitInEnvironment() {
  const char* text = std::getenv("SAMESTEP_TIMEOUT");
  if (text == nullptr || *text == '\0') return kTimeLimit;
  const std::optional<int64_t> seconds = Number(text);
  if (seconds && *seconds >= 1 && *seconds <= kMostSeconds) return *seconds;
  return UsageError("SAMESTEP_TIMEOUT is '{}'; expected are whole seconds from 1 to {}, or nothing for {}",
                    text, kMostSeconds, kTimeLimit);
}

Result<World> World::Join() {
  const Result<int64_t> time_limit = TimeLimitInEnvironment();
  const std::vector<LauncherView> launchers = LaunchersInEnvironment();
  SAMESTEP_ASSIGN_OR_RETURN(const bool needs_mpi, NeedsMpi(launchers));
  World world;
  if (!needs_mpi) {
    SAMESTEP_RETURN_IF_ERROR(time_limit.status());
    world.group_ = OneProcess();
    return world;
  }
  SAMESTEP_RETURN_IF_ERROR(StartMpi());
  world.uses_mpi_ = true;
  world.group_ = MpiGroup(time_limit.ok() ? *time_limit : kTimeLimit);
  Communicator& group = world.group();
  const LauncherView mpi{.name = MpiName(), .rank = group.rank(), .ranks = group.size()};
  const Status launched = CheckLaunchers(launchers, mpi);
  const Status agreed = Agree(group, launched.ok() ? time_limit.status() : launched);
  if (!agreed.ok()) {
    world.Leave();
    if (mpi.rank > 0) std::exit(agreed.ExitCode());
    return agreed;
  }
  world.ranks_on_this_machine_ = RanksOnThisMachine();
  return world;
}

void World::Leave() {
  if (!uses_mpi_) return;
  group_->Barrier();  // MPI's own end would wait without a time limit
  EndMpi();
  uses_mpi_ = false;
}

Status Agree(Communicator& group, const Status& mine) {
  if (group.size() == 1) return mine;
  uint64_t failed = mine.ok() ? 0 : 1;
  group.SumIntegers({&failed, 1});
  if (failed == 0) return {};
  const std::vector<std::string> all = group.Gather(Packed(mine));
  const auto first =
      std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  const bool alike =
      std::all_of(all.begin(), all.end(), [&](const std::string& text) { return text == *first; });
  return Unpacked(*first, alike ? "" : fmt::format("rank {}: ", first - all.begin()));
}

void EndAll(const Communicator& group, const Status& status) {
  std::fflush(stdout);
  fmt::print(stderr, "samestep: rank {}: {}\n", group.rank(), status.message());
  std::fflush(stderr);
  if (MpiRuns()) AbortMpi(status.ExitCode());
  std::exit(status.ExitCode());
}

}  // namespace samestep
