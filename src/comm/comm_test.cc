#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "comm/communicator.h"
#include "comm/mpi_communicator.h"
#include "comm/world.h"

namespace samestep {
namespace {

using ::testing::HasSubstr;

TEST(OneProcess, IsAGroupOfOne) {
  const std::unique_ptr<Communicator> group = OneProcess();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  std::vector<uint64_t> values = {3, ~uint64_t{0}};
  group->SumIntegers(values);
  group->MaxIntegers(values);
  EXPECT_EQ(values, (std::vector<uint64_t>{3, ~uint64_t{0}}));
  EXPECT_EQ(group->Gather("mine"), std::vector<std::string>{"mine"});
  group->Barrier();
  group->Start({}, {}, 0).Wait();
  EXPECT_EQ(group->Split(7, 1)->size(), 1);
  EXPECT_EQ(group->bytes_sent(), 0u);
}

TEST(OneProcessDeathTest, HasNoPeer) {
  const std::unique_ptr<Communicator> group = OneProcess();
  const Transfer transfer{.peer = 0};
  EXPECT_DEATH(group->Start({&transfer, 1}, {}, 0), "sends.empty");
}

TEST(OneProcess, AgreesWithItself) {
  const std::unique_ptr<Communicator> group = OneProcess();
  EXPECT_TRUE(Agree(*group, {}).ok());
  const Status status = Agree(*group, IoError("disk full"));
  EXPECT_EQ(status.message(), "disk full");
  EXPECT_EQ(status.code(), StatusCode::kIo);
}

TEST(OneProcessDeathTest, EndsAllWithTheExitCode) {
  const std::unique_ptr<Communicator> group = OneProcess();
  EXPECT_EXIT(EndAll(*group, NotFiniteError("loss is nan")), ::testing::ExitedWithCode(4),
              "samestep: rank 0: loss is nan");
}

// A Pending waits once: when told to, when replaced, or when destroyed.
TEST(Pending, WaitsOnce) {
  struct Counting : Pending::State {
    explicit Counting(int* where) : waits(where) {}
    void Wait() override { ++*waits; }
    int* waits;
  };
  int a = 0, b = 0;
  {
    Pending pending(std::make_unique<Counting>(&a));
    pending = Pending(std::make_unique<Counting>(&b));
    EXPECT_EQ(a, 1);
    Pending moved(std::move(pending));
    moved.Wait();
    moved.Wait();
    EXPECT_EQ(b, 1);
  }
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
}

// The variables of all launchers, unset; set by a test; as before afterwards.
class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.push_back(value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < before_.size(); ++i) {
      if (before_[i]) {
        setenv(kNames[i], before_[i]->c_str(), 1);
      } else {
        unsetenv(kNames[i]);
      }
    }
  }
  static void Set(const char* name, const char* value) { setenv(name, value, 1); }

 private:
  static constexpr const char* kNames[] = {
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
      "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS", "RANK",     "WORLD_SIZE",
      "SAMESTEP_TIMEOUT"};
  std::vector<std::optional<std::string>> before_;
};

std::string Views() {
  std::string text;
  for (const LauncherView& view : LaunchersInEnvironment()) {
    text += fmt::format("{} {}/{};", view.name, view.rank, view.ranks);
  }
  return text;
}

TEST_F(Environment, NoLauncherNoMpi) {
  EXPECT_EQ(Views(), "");
  Result<World> world = World::Join();
  ASSERT_TRUE(world.ok());
  EXPECT_TRUE(world->alone());
  EXPECT_EQ(world->ranks_on_this_machine(), 1);
  EXPECT_FALSE(MpiRuns());
  world->Leave();
}

TEST_F(Environment, EachLauncherIsRead) {
  Set("OMPI_COMM_WORLD_RANK", "3");
  Set("OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_EQ(Views(), "Open MPI 3/4;");
  Set("PMI_RANK", "1");
  EXPECT_EQ(Views(), "Open MPI 3/4;");
  Set("PMI_SIZE", "2");
  Set("RANK", "0");
  Set("WORLD_SIZE", "1");
  EXPECT_EQ(Views(), "Open MPI 3/4;Hydra 1/2;torchrun 0/1;");
}

TEST_F(Environment, NumbersThatCannotBeAreNoView) {
  Set("RANK", "first");
  Set("WORLD_SIZE", "4");
  EXPECT_EQ(Views(), "");
  Set("RANK", "4");
  EXPECT_EQ(Views(), "");
  Set("RANK", "-1");
  EXPECT_EQ(Views(), "");
  Set("RANK", "3 ");
  EXPECT_EQ(Views(), "");
  Set("RANK", "3");
  EXPECT_EQ(Views(), "torchrun 3/4;");
}

TEST_F(Environment, OfSlurmOnlyStepsCount) {
  Set("SLURM_PROCID", "0");
  Set("SLURM_NTASKS", "8");  // of a batch script, which is one process
  EXPECT_EQ(Views(), "");
  Set("SLURM_STEP_NUM_TASKS", "2");
  EXPECT_EQ(Views(), "Slurm 0/2;");
  Set("OMPI_COMM_WORLD_RANK", "3");  // mpirun started its daemons as that step
  Set("OMPI_COMM_WORLD_SIZE", "8");
  EXPECT_EQ(Views(), "Open MPI 3/8;");
  unsetenv("SLURM_NTASKS");
}

TEST_F(Environment, TorchrunAloneIsRefused) {
  Set("RANK", "1");
  Set("WORLD_SIZE", "4");
  const Result<World> world = World::Join();
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), StatusCode::kUsage);
  EXPECT_THAT(world.status().message(), HasSubstr("rank 1 of 4, but torchrun starts no MPI"));
  EXPECT_THAT(world.status().message(), HasSubstr("`mpirun -n 4`"));
  Set("RANK", "0");
  Set("WORLD_SIZE", "1");
  EXPECT_TRUE(World::Join().ok());
}

TEST_F(Environment, RanksNeedMpiWhereItIsBuiltIn) {
  const Result<bool> one = NeedsMpi({{.name = "Slurm", .rank = 0, .ranks = 1}});
  EXPECT_FALSE(*one);
  const Result<bool> two = NeedsMpi({{.name = "Hydra", .rank = 1, .ranks = 2}});
  if (MpiName().empty()) {
    EXPECT_THAT(two.status().message(),
                HasSubstr("Hydra says rank 1 of 2, but this program was built without MPI"));
    EXPECT_THAT(two.status().message(), HasSubstr("-DSAMESTEP_MPI=ON"));
  } else {
    EXPECT_TRUE(*two);
  }
}

TEST(CheckLaunchers, NamesBoth) {
  const std::vector<LauncherView> hydra = {{.name = "Hydra", .rank = 1, .ranks = 4}};
  EXPECT_TRUE(CheckLaunchers(hydra, {.name = "MPICH", .rank = 1, .ranks = 4}).ok());
  EXPECT_TRUE(CheckLaunchers({}, {.name = "MPICH", .rank = 1, .ranks = 4}).ok());
  const Status status = CheckLaunchers(hydra, {.name = "Open MPI", .rank = 0, .ranks = 1});
  EXPECT_EQ(status.code(), StatusCode::kUsage);
  EXPECT_EQ(
      status.message(),
      "Hydra says rank 1 of 4, MPI says 0 of 1: this program was built for Open MPI; start it with Open "
      "MPI's mpirun, or build with --preset mpich");
  EXPECT_FALSE(CheckLaunchers(hydra, {.name = "MPICH", .rank = 2, .ranks = 4}).ok());
  EXPECT_FALSE(CheckLaunchers(hydra, {.name = "MPICH", .rank = 1, .ranks = 5}).ok());
}

TEST_F(Environment, TimeLimitIsWholeSeconds) {
  EXPECT_EQ(*TimeLimitInEnvironment(), 600);
  Set("SAMESTEP_TIMEOUT", "");
  EXPECT_EQ(*TimeLimitInEnvironment(), 600);
  Set("SAMESTEP_TIMEOUT", "2");
  EXPECT_EQ(*TimeLimitInEnvironment(), 2);
  for (const char* text : {"0", "-3", "2s", "soon", "1.5", "99999999999999999999"}) {
    Set("SAMESTEP_TIMEOUT", text);
    EXPECT_EQ(TimeLimitInEnvironment().status().code(), StatusCode::kUsage) << text;
    EXPECT_FALSE(World::Join().ok()) << text;
  }
}

}  // namespace
}  // namespace samestep
