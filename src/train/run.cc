#include "train/run.h"

#include <chrono>
#include <optional>

#include "base/files.h"
#include "base/parallel_for.h"
#include "base/version.h"
#include "comm/world.h"
#include "data/sample_source.h"
#include "train/from_recipe.h"
#include "train/members.h"
#include "train/metrics.h"
#include "train/recorder.h"
#include "train/state.h"
#include "train/tensorboard.h"

namespace samestep {
namespace {

TokenReader ReaderOf(const SampleSource& source) {
  return [&source](int64_t sample, std::span<int32_t> tokens) { return source.Read(sample, tokens); };
}

// Everything of a run that lives as long as its loop.
class RunLoop {
 public:
  RunLoop(const RunOptions& options, RunReporter& reporter) : options_(options), reporter_(reporter) {}

  Result<RunResult> Execute() {
    SAMESTEP_RETURN_IF_ERROR(MakeGrid());
    SAMESTEP_RETURN_IF_ERROR(Agree(world(), TakeFolder()));
    SAMESTEP_RETURN_IF_ERROR(Agree(world(), OpenData()));
    SAMESTEP_RETURN_IF_ERROR(CompareData());
    SAMESTEP_RETURN_IF_ERROR(MakeTrainer());
    SAMESTEP_RETURN_IF_ERROR(Agree(world(), OpenOutputs()));
    reporter_.OnStart(*trainer_, result_.resumed_at);
    const Status status = Loop();
    const Status finished = Agree(world(), recorder_.Finish());
    if (!status.ok()) return status;
    if (!finished.ok()) return finished;
    return result_;
  }

 private:
  Communicator& world() const { return grid_->world(); }
  bool keeps_folder() const { return world().rank() == 0; }

  Status MakeGrid() {
    if (options_.group == nullptr) {
      alone_ = OneProcess();
    }
    Communicator& group = options_.group == nullptr ? *alone_ : *options_.group;
    const Layout layout = LayoutOf(options_.recipe);
    // First, since everything below relies on all ranks taking the same way.
    SAMESTEP_RETURN_IF_ERROR(CompareMembers(group));
    SAMESTEP_RETURN_IF_ERROR(CheckLayout(layout, LayoutWidthsOf(options_.recipe), group.size()));
    const PlanConfig plan = PlanConfigOf(options_.recipe, ThreadCount());
    SAMESTEP_RETURN_IF_ERROR(Agree(group, CheckMemory(plan, options_.ranks_on_this_machine)));
    grid_.emplace(group, layout);
    return {};
  }

  Status TakeFolder() {
    if (!keeps_folder()) return {};
    SAMESTEP_RETURN_IF_ERROR(MakeFolders(options_.folder));
    SAMESTEP_ASSIGN_OR_RETURN(FolderLock lock, FolderLock::Take(options_.folder));
    lock_.emplace(std::move(lock));
    if (!options_.resume && FileExists(RecipeFile(options_.folder))) {
      return ConflictError("{} holds a run already; continue it with --resume, or name another folder",
                           options_.folder);
    }
    return {};
  }

  // Reads one sample too, so that data of another tokenizer is refused before anything is written.
  Status OpenData() {
    SAMESTEP_ASSIGN_OR_RETURN(SampleSource training, SampleSource::Open(TrainingDataOf(options_.recipe)));
    training_.emplace(std::move(training));
    std::vector<int32_t> sample(static_cast<size_t>(options_.recipe.model.sequence + 1));
    SAMESTEP_RETURN_IF_ERROR(training_->Read(0, sample));
    if (options_.recipe.train.evaluate_every > 0) {
      SAMESTEP_ASSIGN_OR_RETURN(SampleSource validation,
                                SampleSource::Open(ValidationDataOf(options_.recipe)));
      validation_.emplace(std::move(validation));
    }
    identity_ = {RecipeDigest(options_.recipe).hex(), CanonicalText(options_.recipe),
                 training_->Digest().hex()};
    return {};
  }

  // All ranks must be about to compute the same thing, before anything is read or written.
  Status CompareMembers(Communicator& group) const {
    if (group.size() == 1) return {};
    std::vector<MemberFact> facts = {{"numerics profile", kNumericsProfile},
                                     {"version", kVersion},
                                     {"recipe", CanonicalText(options_.recipe)},
                                     {"run folder", options_.folder},
                                     {"--stop-after", std::to_string(options_.stop_after)}};
    if (!options_.mixed_programs) facts.push_back({"program (--mixed-programs allows it)", ProgramDigest()});
    return CompareFacts(group, facts);
  }

  Status CompareData() const {
    if (world().size() == 1) return {};
    std::vector<MemberFact> facts = {{"data digest", identity_.data_digest}};
    if (validation_) facts.push_back({"validation data digest", validation_->Digest().hex()});
    return CompareFacts(world(), facts);
  }

  Status MakeTrainer() {
    trainer_.emplace(TrainerConfigOf(options_.recipe), ReaderOf(*training_), *grid_);
    const std::vector<std::string> collisions = trainer_->model().parameters().StreamCollisions();
    if (!collisions.empty()) {
      return UsageError("the random streams of {} collide; change model.layers by one", collisions.front());
    }
    std::string checkpoint;
    SAMESTEP_RETURN_IF_ERROR(Agree(world(), FindCheckpoint(checkpoint)));
    checkpoint = world().Gather(checkpoint).front();
    if (checkpoint.empty()) {
      trainer_->Initialize();
    } else {
      SAMESTEP_RETURN_IF_ERROR(LoadState(checkpoint, *trainer_, identity_));
    }
    if (options_.stop_after > 0 && options_.stop_after <= trainer_->position().step) {
      return UsageError("the run is at step {} already, --stop-after {} lies behind; name a later step",
                        trainer_->position().step, options_.stop_after);
    }
    result_.resumed_at = trainer_->position().step;
    result_.step = trainer_->position().step;
    result_.digest = trainer_->position().digest;
    return {};
  }

  // A run without a checkpoint has nothing but its recipe to tell that it is another one.
  Status CheckRecipeOfFolder() const {
    const std::string path = RecipeFile(options_.folder);
    if (!FileExists(path)) return {};
    SAMESTEP_ASSIGN_OR_RETURN(const Recipe before, LoadRecipe(path));
    if (RecipeDigest(before).hex() == identity_.recipe_digest) return {};
    return UsageError("{} holds a run of another recipe (digest {}, this one {}); name another folder",
                      options_.folder, RecipeDigest(before).hex(), identity_.recipe_digest);
  }

  // Empty: begin at step 0. A run that was killed before its first checkpoint resumes there too.
  Status FindCheckpoint(std::string& checkpoint) const {
    if (!keeps_folder()) return {};
    checkpoint = options_.from;
    if (options_.resume && checkpoint.empty()) {
      SAMESTEP_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                                ListCheckpoints(CheckpointsFolder(options_.folder)));
      if (!folders.empty()) checkpoint = folders.back();
    }
    return checkpoint.empty() ? CheckRecipeOfFolder() : Status();
  }

  Status OpenOutputs() {
    // First what the environment may have wrong: a run that never began must not look like one.
    SAMESTEP_RETURN_IF_ERROR(recorder_.Start(options_.recipe, identity_.recipe_digest, world()));
    if (!keeps_folder()) return {};
    // From here on the run goes on from its step: what lies behind is made again, checkpoints and metrics
    // alike.
    SAMESTEP_RETURN_IF_ERROR(RemoveCheckpointsAfter(CheckpointsFolder(options_.folder), result_.resumed_at));
    SAMESTEP_RETURN_IF_ERROR(WriteFileAtomically(RecipeFile(options_.folder), identity_.recipe));
    SAMESTEP_ASSIGN_OR_RETURN(
        MetricsWriter metrics,
        MetricsWriter::Open(JoinPath(options_.folder, "metrics.jsonl"), result_.resumed_at));
    metrics_.emplace(std::move(metrics));
    if (options_.tensorboard) {
      const std::string folder = JoinPath(options_.folder, "tensorboard");
      SAMESTEP_RETURN_IF_ERROR(MakeFolders(folder));
      SAMESTEP_ASSIGN_OR_RETURN(EventWriter events,
                                EventWriter::Open(folder, SystemClock(), result_.resumed_at));
      events_.emplace(std::move(events));
    }
    return {};
  }

  Status Loop() {
    const TrainRecipe& train = options_.recipe.train;
    while (result_.step < train.steps) {
      const auto begin = std::chrono::steady_clock::now();
      SAMESTEP_ASSIGN_OR_RETURN(const StepReport report, trainer_->Step());
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      result_.step = report.step;
      result_.digest = report.digest;
      result_.loss = report.loss;
      const bool last = report.step == train.steps;
      const bool evaluates = train.evaluate_every > 0 && (last || report.step % train.evaluate_every == 0);
      if (evaluates) {
        SAMESTEP_ASSIGN_OR_RETURN(result_.evaluation,
                                  trainer_->Evaluate(ReaderOf(*validation_), train.evaluate_samples));
      }
      reporter_.OnStep(report,
                       static_cast<double>(train.global_batch * options_.recipe.model.sequence) / seconds);
      if (evaluates) reporter_.OnEvaluation(report.step, result_.evaluation, report.digest);
      SAMESTEP_RETURN_IF_ERROR(EndStep(report, evaluates, last));
      const bool due = train.checkpoint_every > 0 && report.step % train.checkpoint_every == 0;
      if (due || last || result_.stopped) SAMESTEP_RETURN_IF_ERROR(Checkpoint());
      if (result_.stopped) break;
    }
    return {};
  }

  // What each rank alone can fail in, or be asked, between two steps: all hear of it.
  Status EndStep(const StepReport& report, bool evaluated, bool last) {
    Status status = recorder_.status();
    if (status.ok() && keeps_folder()) status = WriteMetrics(report, evaluated);
    uint64_t flags[] = {status.ok() ? 0u : 1u, StopAsked() ? 1u : 0u};
    world().MaxIntegers(flags);
    if (flags[0] != 0) return Agree(world(), status);
    result_.stopped = !last && flags[1] != 0;
    return {};
  }

  bool StopAsked() const {
    if (options_.stop_after > 0 && result_.step >= options_.stop_after) return true;
    return options_.stop != nullptr && *options_.stop != 0;
  }

  Status WriteMetrics(const StepReport& report, bool evaluated) {
    MetricsLine line(report.step);
    line.Integer("consumed_samples", report.consumed_samples)
        .Real("loss", report.loss)
        .Real("norm", report.norm)
        .Real("learning_rate", report.learning_rate)
        .Text("digest", report.digest.hex());
    if (evaluated) line.Real("evaluation_loss", result_.evaluation);
    SAMESTEP_RETURN_IF_ERROR(metrics_->Write(line));
    if (!events_) return {};
    SAMESTEP_RETURN_IF_ERROR(events_->Scalar(report.step, "train/loss", report.loss));
    SAMESTEP_RETURN_IF_ERROR(events_->Scalar(report.step, "train/gradient_norm", report.norm));
    SAMESTEP_RETURN_IF_ERROR(events_->Scalar(report.step, "train/learning_rate", report.learning_rate));
    if (!evaluated) return {};
    return events_->Scalar(report.step, "validation/loss", result_.evaluation);
  }

  // Metrics first: whoever resumes here continues them.
  Status Checkpoint() {
    SAMESTEP_RETURN_IF_ERROR(Agree(world(), FlushOutputs()));
    const std::string root = CheckpointsFolder(options_.folder);
    SAMESTEP_RETURN_IF_ERROR(SaveState(root, *trainer_, identity_));
    SAMESTEP_RETURN_IF_ERROR(Agree(
        world(), keeps_folder() ? KeepCheckpoints(root, options_.recipe.train.keep_checkpoints) : Status()));
    reporter_.OnCheckpoint(result_.step, root);
    return {};
  }

  Status FlushOutputs() {
    if (metrics_) SAMESTEP_RETURN_IF_ERROR(metrics_->Flush());
    return events_ ? events_->Flush() : Status();
  }

  const RunOptions& options_;
  RunReporter& reporter_;
  std::unique_ptr<Communicator> alone_;
  std::optional<ProcessGrid> grid_;
  std::optional<FolderLock> lock_;
  std::optional<SampleSource> training_, validation_;
  RunIdentity identity_;
  std::optional<Trainer> trainer_;
  std::optional<MetricsWriter> metrics_;
  std::optional<EventWriter> events_;
  RunRecorder recorder_;
  RunResult result_;
};

}  // namespace

std::string CheckpointsFolder(const std::string& run_folder) { return JoinPath(run_folder, "checkpoints"); }
std::string RecipeFile(const std::string& run_folder) { return JoinPath(run_folder, "recipe.toml"); }

Result<RunResult> RunTraining(const RunOptions& options, RunReporter& reporter) {
  return RunLoop(options, reporter).Execute();
}

}  // namespace samestep
