// samestep train: a recipe in, a run folder out.
#include <signal.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <memory>

#include "base/parallel_for.h"
#include "base/progress.h"
#include "cli/command.h"
#include "comm/world.h"
#include "numerics/simd_target.h"
#include "train/run.h"
#include "train/supervise.h"

namespace samestep {
namespace {

volatile std::sig_atomic_t stop_requested = 0;
volatile std::sig_atomic_t one_of_several = 0;

void RequestStop(int) {
  stop_requested = 1;
  // A launcher signals all ranks, also to end them when one has died: then there is no step to come.
  if (one_of_several) return;
  constexpr char kMessage[] = "samestep: stopping after this step; again to end at once\n";
  if (::write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0) return;  // nobody is listening
}

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = RequestStop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second one ends the program at once
  // SIGUSR1 is what launchers pass on to their ranks; at the other two they end them.
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

std::string HexOf(double value) { return fmt::format("{:016x}", std::bit_cast<uint64_t>(value)); }

struct TrainArguments {
  std::string recipe, run, from, simd, launch;
  std::vector<std::string> set;
  int threads = 0, restarts = 0;
  int64_t micro_batch = 0, stop_after = 0;
  int64_t hostile = 0;
  bool resume = false, poison = false, no_tensorboard = false, mixed_programs = false;
};

class Console : public RunReporter {
 public:
  Console(const Output& out, const Recipe& recipe)
      : out_(out), recipe_(recipe), progress_("training", recipe.train.steps) {}

  void OnStart(const Trainer& trainer, int64_t resumed_at) override {
    CatchStopSignals();  // before, there is nothing to save
    out_.Line(fmt::format("{} parameters, {} samples of {} tokens a step, {} steps, {} thread{}",
                          trainer.model().parameters().elements(), recipe_.train.global_batch,
                          recipe_.model.sequence, recipe_.train.steps, ThreadCount(),
                          ThreadCount() == 1 ? "" : "s"));
    if (resumed_at > 0) out_.Line(fmt::format("resumed after step {}", resumed_at));
    progress_.Update(resumed_at);
  }
  void OnStep(const StepReport& r, double tokens_per_second) override {
    if (out_.silent()) return;
    const std::string speed = fmt::format("{:.0f} tokens/s", tokens_per_second);
    progress_.Update(r.step, fmt::format("step {}  loss {:.6f}  {}", r.step, r.loss, speed));
    const bool due = r.step == 1 || r.step == recipe_.train.steps || r.step % recipe_.train.log_every == 0;
    if (!due) return;
    progress_.Clear();
    const double left = progress_.SecondsLeft();
    out_.Line(fmt::format("step {:>6}  loss {:.6f} ({})  norm {:.4f}  {}{}", r.step, r.loss, HexOf(r.loss),
                          r.norm, speed, left < 0 ? "" : "  " + FormatDuration(left) + " left"));
  }
  void OnEvaluation(int64_t step, double loss, const Digest& digest) override {
    progress_.Clear();
    out_.Line(fmt::format("step {:>6}  held-out loss {:.6f} ({})  digest {}", step, loss, HexOf(loss),
                          digest.hex()));
  }
  void OnWarning(const std::string& text) override {
    progress_.Clear();
    out_.Warning(text);
  }

 private:
  const Output& out_;
  const Recipe& recipe_;
  Progress progress_;
};

Result<Recipe> RecipeOf(const TrainArguments& a) {
  std::vector<std::string> overrides = a.set;
  if (a.micro_batch > 0) overrides.push_back(fmt::format("train.micro_batch={}", a.micro_batch));
  const std::string path = a.recipe.empty() ? RecipeFile(a.run) : a.recipe;
  return LoadRecipe(path, overrides);
}

std::string ProgramPath() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "samestep" : path.string();
}

// A thread for each core that is not another rank's.
int ThreadsOf(const TrainArguments& a, const World& world) {
  if (a.threads > 0 || world.ranks_on_this_machine() == 1) return a.threads;
  return std::max(1, ThreadCount() / world.ranks_on_this_machine());
}

int TrainInWorld(const TrainArguments& a, const World& world, const Output& out);

// The same command again as a child, without --restarts and with --resume.
int RunSupervised(const TrainArguments& a, const Output& all) {
  const std::vector<LauncherView> launchers = LaunchersInEnvironment();
  const bool started_by_launcher = !launchers.empty() && launchers.front().ranks > 1;
  const Output out = started_by_launcher && launchers.front().rank > 0 ? all.Silent() : all;
  if (started_by_launcher) {
    return out.Error(UsageError(
        "--restarts and --launch start the launcher themselves, but {} started this process as rank "
        "{} of {}; use --launch \"mpirun -n {}\" instead",
        launchers.front().name, launchers.front().rank, launchers.front().ranks, launchers.front().ranks));
  }
  std::vector<std::string> command = CLI::detail::split_up(a.launch);
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty() && value != "0") command.insert(command.end(), {option, value});
  };
  command.insert(command.end(), {ProgramPath(), "train"});
  if (!a.recipe.empty()) command.push_back(a.recipe);
  command.insert(command.end(), {"--run", a.run, "--resume"});
  for (const std::string& s : a.set) add("--set", s);
  add("--stop-after", std::to_string(a.stop_after));
  add("--threads", std::to_string(a.threads));
  add("--micro-batch", std::to_string(a.micro_batch));
  add("--simd", a.simd);
  add("--hostile", std::to_string(a.hostile));
  if (a.poison) command.push_back("--poison");
  if (a.mixed_programs) command.push_back("--mixed-programs");
  if (a.no_tensorboard) command.push_back("--no-tensorboard");
  if (out.json()) command.push_back("--json");
  // A launcher ends its ranks upon SIGTERM; what it passes on to them is SIGUSR1.
  const int stop_signal = a.launch.empty() ? SIGTERM : SIGUSR1;
  const Result<int> code =
      Supervise(command, a.restarts, stop_signal, [&](const std::string& text) { out.Warning(text); });
  return code.ok() ? *code : out.Error(code.status());
}

int RunTrain(const TrainArguments& a, const Output& all) {
  if (a.restarts > 0 || !a.launch.empty()) return RunSupervised(a, all);
  Result<World> world = World::Join();
  if (!world.ok()) return all.Error(world.status());
  one_of_several = world->alone() ? 0 : 1;
  // One of them speaks.
  const Output out = world->group().rank() == 0 ? all : all.Silent();
  int exit_code = 0;
  try {
    exit_code = TrainInWorld(a, *world, out);
  } catch (const std::exception& error) {  // the system's: memory
    if (world->alone()) throw;
    EndAll(world->group(), IoError("{}", error.what()));
  }
  world->Leave();
  return exit_code;
}

Result<Recipe> Prepare(const TrainArguments& a) {
  if (a.recipe.empty() && !a.resume) {  // --from alone begins a run of its own, so it needs a recipe, too
    return UsageError("no recipe: name one (samestep train RECIPE --run FOLDER), or --resume a run");
  }
  if (!a.simd.empty()) SAMESTEP_RETURN_IF_ERROR(ForceSimdTarget(a.simd));
  return RecipeOf(a);
}

int TrainInWorld(const TrainArguments& a, const World& world, const Output& out) {
  const Result<Recipe> recipe = Prepare(a);
  if (const Status status = Agree(world.group(), recipe.status()); !status.ok()) return out.Error(status);
  SetSchedule({ThreadsOf(a, world), static_cast<uint64_t>(a.hostile)});
  SetPoisonEmptyTensors(a.poison);

  RunOptions options;
  options.recipe = *recipe;
  options.group = &world.group();
  options.ranks_on_this_machine = world.ranks_on_this_machine();
  options.mixed_programs = a.mixed_programs;
  options.folder = a.run;
  options.resume = a.resume;
  options.from = a.from;
  options.tensorboard = !a.no_tensorboard;
  options.stop_after = a.stop_after;
  options.stop = &stop_requested;
  Console console(out, *recipe);
  const Result<RunResult> result = RunTraining(options, console);
  if (!result.ok()) return out.Error(result.status());
  nlohmann::ordered_json object;
  object["run"] = a.run;
  object["step"] = result->step;
  object["steps"] = recipe->train.steps;
  object["stopped"] = result->stopped;
  object["resumed_at"] = result->resumed_at;
  const bool trained = result->step > result->resumed_at;  // else there is no loss of this invocation
  object["loss"] = trained ? nlohmann::ordered_json(result->loss) : nullptr;
  object["loss_hex"] = trained ? nlohmann::ordered_json(HexOf(result->loss)) : nullptr;
  object["digest"] = result->digest.hex();
  object["recipe_digest"] = RecipeDigest(*recipe).hex();
  out.Result(object, fmt::format("{}trajectory digest after step {}: {}",
                                 result->stopped ? "stopped and saved; continue with --resume\n" : "",
                                 result->step, result->digest.hex()));
  return 0;
}

const bool registered =
    RegisterCommand("train", "Train a model: a recipe in, a run folder out", [](CLI::App& app) {
      auto a = std::make_shared<TrainArguments>();
      app.add_option("RECIPE", a->recipe, "Recipe (TOML); with --resume, by default that of the run folder");
      app.add_option("--run", a->run, "Folder of the run: checkpoints, metrics, recipe")->required();
      app.add_option("--set", a->set, "Override a field: --set train.steps=20 (repeatable)")
          ->allow_extra_args(false);
      app.add_flag("--resume", a->resume, "Continue the run in the folder from its newest checkpoint");
      app.add_option("--from", a->from, "Continue from this checkpoint folder instead of the newest");
      app.add_option("--stop-after", a->stop_after, "Save and end after this step; --resume goes on")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
      app.add_option("--threads", a->threads, "Threads (default: one for each core); changes no bit")
          ->check(CLI::Range(1, 1024));
      app.add_option("--micro-batch", a->micro_batch,
                     "Samples that go through the model together; changes no bit")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
      app.add_option("--simd", a->simd, "Instruction set, e.g. avx2 (default: the best); changes no bit");
      app.add_option("--hostile", a->hostile,
                     "Permute and delay the tasks of all kernels by this seed; changes no bit")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 62));
      app.add_flag("--poison", a->poison,
                   "Fill new memory with NaN, so that a read of unwritten memory shows");
      app.add_option("--restarts", a->restarts,
                     "Train in a child process, and begin it again from its last checkpoint when it dies, at "
                     "most so often; implies --resume")
          ->check(CLI::Range(0, 1000000))
          ->excludes("--from");
      app.add_option("--launch", a->launch, "Launcher of that child, e.g. \"mpirun -n 4\"")
          ->excludes("--from");
      app.add_flag("--mixed-programs", a->mixed_programs,
                   "Ranks may run different builds of this version (machines of several kinds)");
      app.add_flag("--no-tensorboard", a->no_tensorboard, "Write no TensorBoard events");
      app.footer(
          "Example:\n  samestep train examples/quickstart.toml --run runs/a --threads 2\n"
          "  samestep train --run runs/a --resume\n"
          "  mpirun -n 4 samestep train recipe.toml --run runs/b --set layout.data=2 --set layout.tensor=2\n"
          "SIGTERM, SIGINT and SIGUSR1 save a checkpoint after the current step and exit with 0.");
      return [a](const Output& out) { return RunTrain(*a, out); };
    });

}  // namespace
}  // namespace samestep
