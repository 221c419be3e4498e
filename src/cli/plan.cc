// samestep plan: what a training will need, before anything runs.
#include <algorithm>
#include <memory>

#include "base/parallel_for.h"
#include "base/progress.h"
#include "cli/command.h"
#include "plan/from_recipe.h"
#include "plan/measure.h"

namespace samestep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostProcesses = 1 << 16;
constexpr size_t kMostRanksInJson = 64;

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> set;
  int processes = 0;
  bool no_measure = false;
};

struct LayoutLine {
  Layout layout;
  Count memory, sent, sent_by_all;  // of the rank that needs most, that sends most; of all
};

// All that is printed.
struct PlanReport {
  std::string recipe;
  PlanConfig config;
  int64_t steps = 0;
  int processes = 1;
  bool detailed = true;         // else the recipe names no layout of so many processes
  std::vector<RankPlan> ranks;  // all of the layout
  std::vector<RankPlan> largest;
  std::vector<LayoutLine> layouts;
  MachineSpeed speed;  // no threads: not measured

  const RankPlan& fullest() const {
    return *std::max_element(ranks.begin(), ranks.end(),
                             [](const RankPlan& a, const RankPlan& b) { return a.Memory() < b.Memory(); });
  }
  template <typename Of>
  Count Sum(const Of& of) const {
    Count total;
    for (const RankPlan& rank : ranks) total += of(rank);
    return total;
  }
};

std::vector<RankPlan> AllRanks(const PlanConfig& config) {
  std::vector<RankPlan> ranks;
  for (int r = 0; r < config.layout.ranks(); ++r)
    ranks.push_back(PlanRank(config, PlaceOf(config.layout, r)));
  return ranks;
}

LayoutLine LineOf(PlanConfig config, const Layout& layout) {
  config.layout = layout;
  LayoutLine line{layout, {}, {}, {}};
  for (const RankPlan& rank : AllRanks(config)) {
    line.memory = std::max(line.memory, rank.Memory());
    line.sent = std::max(line.sent, rank.BytesSent());
    line.sent_by_all += rank.BytesSent();
  }
  return line;
}

// Fields of a recipe can be any integers; their product may not fit.
int RanksOf(const Layout& layout) {
  const Count ranks = Count(layout.data) * layout.tensor * layout.pipeline;
  return static_cast<int>(std::clamp<int64_t>(ranks.value(), 1, kMostProcesses));
}

Result<PlanReport> MakeReport(const PlanArguments& a) {
  SAMESTEP_ASSIGN_OR_RETURN(const Recipe recipe, LoadRecipe(a.recipe, a.set));
  PlanReport report;
  report.recipe = a.recipe;
  report.steps = recipe.train.steps;
  const Layout layout = LayoutOf(recipe);
  const LayoutWidths widths = LayoutWidthsOf(recipe);
  report.processes = a.processes > 0 ? a.processes : RanksOf(layout);
  const std::vector<Layout> allowed = AllowedLayouts(widths, report.processes);
  // A recipe that names no layout asks which there are.
  report.detailed = RanksOf(layout) > 1 || report.processes == 1 || allowed.empty();
  if (report.detailed) SAMESTEP_RETURN_IF_ERROR(CheckLayout(layout, widths, report.processes));
  report.config = PlanConfigOf(recipe, std::max(1, ThreadCount() / report.processes));
  for (const Layout& other : allowed) report.layouts.push_back(LineOf(report.config, other));
  if (!report.detailed) return report;
  report.ranks = AllRanks(report.config);
  report.largest = PlanLargestRanks(report.config);
  if (!a.no_measure) report.speed = MeasureMachine(report.config);
  return report;
}

std::string Size(Count bytes) {
  if (bytes.value() == 0) return "0";
  if (bytes.value() < 1 << 20) return fmt::format("{:.1f} KiB", bytes.real() / 0x1p10);
  if (bytes.value() < 1 << 30) return fmt::format("{:.1f} MiB", bytes.real() / 0x1p20);
  return fmt::format("{:.2f} GiB", bytes.real() / 0x1p30);
}

std::string Operations(Count operations) {
  if (operations.real() < 1e9) return fmt::format("{:.2f} MFLOP", operations.real() / 1e6);
  if (operations.real() < 1e12) return fmt::format("{:.2f} GFLOP", operations.real() / 1e9);
  return fmt::format("{:.2f} TFLOP", operations.real() / 1e12);
}

std::string Seconds(double seconds) {
  if (seconds < 10) return fmt::format("{:.3f} s", seconds);
  return FormatDuration(seconds);
}

std::string Line(const std::string& label, const std::string& value, const std::string& more = "") {
  return fmt::format("{:<34}{:>12}{}{}\n", label, value, more.empty() ? "" : "   ", more);
}

std::string MemoryText(const PlanReport& r) {
  const RankPlan& rank = r.fullest();
  std::string text =
      Line("memory of the fullest rank", Size(rank.Memory()),
           r.processes == 1
               ? ""
               : fmt::format("all ranks: {}", Size(r.Sum([](const RankPlan& p) { return p.Memory(); }))));
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    if (rank.memory[kind] == 0) continue;
    text += Line(fmt::format("  {}", MemoryLabel(static_cast<MemoryKind>(kind))), Size(rank.memory[kind]));
  }
  return text;
}

std::string ArithmeticText(const PlanReport& r) {
  Count most;
  for (const RankPlan& rank : r.ranks) most = std::max(most, rank.Operations());
  const Count all = r.Sum([](const RankPlan& p) { return p.Operations(); });
  return Line("arithmetic of a step", Operations(all),
              fmt::format("6 x parameters x tokens: {}", Operations(SixParametersTokens(r.config)))) +
         (r.processes == 1 ? "" : Line("  of the busiest rank", Operations(most)));
}

std::string NetworkText(const PlanReport& r) {
  if (r.processes == 1) return Line("sent in a step", "0", "one process");
  const RankPlan& rank =
      *std::max_element(r.ranks.begin(), r.ranks.end(),
                        [](const RankPlan& a, const RankPlan& b) { return a.BytesSent() < b.BytesSent(); });
  std::string text = Line("sent in a step, busiest rank", Size(rank.BytesSent()),
                          fmt::format("rings would send {}", Size(rank.RingBytes())));
  for (const NetworkItem& item : rank.network) {
    std::string more = fmt::format("ring {}", Size(item.ring));
    if (item.at_most)
      more = fmt::format("at most; {} if tokens are equally frequent; {}", Size(item.expected), more);
    text += Line(fmt::format("  {}: {}", item.axis, item.label), Size(item.bytes), more);
  }
  return text + Line("  integers, besides", Size(rank.integers));
}

std::string TimeText(const PlanReport& r) {
  if (r.speed.threads == 0) return "";
  const double apart = StepSeconds(r.config, r.largest, r.speed, 1);
  const double together = StepSeconds(r.config, r.largest, r.speed, r.processes);
  std::string text =
      Line("time of a step, here (estimate)", Seconds(together),
           fmt::format("all {} steps: {}", r.steps, FormatDuration(together * static_cast<double>(r.steps))));
  if (r.processes > 1)
    text += Line("  each process on such a machine", Seconds(apart), "network not counted");
  return text + fmt::format("  measured: {:.1f} GFLOP/s in products, {:.1f} GB/s in passes, {} thread{}\n",
                            r.speed.operations_per_second / 1e9, r.speed.bytes_per_second / 1e9,
                            r.speed.threads, r.speed.threads == 1 ? "" : "s");
}

std::string LayoutsText(const PlanReport& r) {
  std::string text = fmt::format("layouts of {} process{} that the widths allow\n", r.processes,
                                 r.processes == 1 ? "" : "es");
  text += fmt::format("{:>6}{:>8}{:>10}{:>8}{:>16}{:>14}{:>14}\n", "data", "tensor", "pipeline", "chunks",
                      "memory a rank", "sent a rank", "sent by all");
  for (const LayoutLine& l : r.layouts) {
    text +=
        fmt::format("{:>6}{:>8}{:>10}{:>8}{:>16}{:>14}{:>14}\n", l.layout.data, l.layout.tensor,
                    l.layout.pipeline, l.layout.chunks, Size(l.memory), Size(l.sent), Size(l.sent_by_all));
  }
  return text;
}

std::string TextOf(const PlanReport& r) {
  const std::string parameters = fmt::format("{}", ModelParameters(r.config.model).value());
  if (!r.detailed) {
    return fmt::format(
        "{}: {} parameters; the recipe names no layout of {} processes: choose one with --set "
        "layout.data=... and so on\n\n{}",
        r.recipe, parameters, r.processes, LayoutsText(r));
  }
  std::string text = fmt::format("{}: {}\n\n", r.recipe, r.config.layout.ToString());
  text += Line("parameters", parameters,
               r.processes == 1 ? "" : fmt::format("fullest rank: {}", r.fullest().parameters.value()));
  return text + MemoryText(r) + ArithmeticText(r) + NetworkText(r) + TimeText(r) + "\n" + LayoutsText(r);
}

Json LayoutJson(const Layout& l) {
  return {{"data", l.data}, {"tensor", l.tensor}, {"pipeline", l.pipeline}, {"chunks", l.chunks}};
}

Json RankJson(const PlanReport& r, const RankPlan& rank) {
  Json memory;
  memory["total"] = rank.Memory().value();
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    memory[MemoryKey(static_cast<MemoryKind>(kind))] = rank.memory[kind].value();
  }
  Json items = Json::array();
  for (const NetworkItem& item : rank.network) {
    Json entry{{"axis", item.axis},
               {"purpose", item.key},
               {"bytes", item.bytes.value()},
               {"ring", item.ring.value()}};
    entry["at_most"] = item.at_most;
    if (item.at_most) entry["expected"] = item.expected.value();
    items.push_back(std::move(entry));
  }
  Json object;
  object["rank"] = RankOf(r.config.layout, rank.place);
  object["data"] = rank.place.data;
  object["tensor"] = rank.place.tensor;
  object["pipeline"] = rank.place.pipeline;
  object["parameters"] = rank.parameters.value();
  object["owned_parameters"] = rank.owned_parameters.value();
  object["memory"] = std::move(memory);
  object["operations"] = rank.Operations().value();
  object["recomputed_operations"] = (Count(2) * rank.recompute).value();
  object["bytes_sent"] = rank.BytesSent().value();
  object["ring_bytes"] = rank.RingBytes().value();
  object["network"] = std::move(items);
  object["integer_bytes"] = rank.integers.value();
  return object;
}

void AddDetails(const PlanReport& r, Json& object) {
  object["layout"] = LayoutJson(r.config.layout);
  object["fullest_rank"] = RankJson(r, r.fullest());
  object["memory_of_all_ranks"] = r.Sum([](const RankPlan& p) { return p.Memory(); }).value();
  object["operations"] = r.Sum([](const RankPlan& p) { return p.Operations(); }).value();
  object["six_parameters_tokens"] = SixParametersTokens(r.config).value();
  object["bytes_sent_by_all_ranks"] = r.Sum([](const RankPlan& p) { return p.BytesSent(); }).value();
  if (r.speed.threads > 0) {
    const double step = StepSeconds(r.config, r.largest, r.speed, r.processes);
    object["time"] = {{"estimate", true},
                      {"seconds_a_step", step},
                      {"seconds", step * static_cast<double>(r.steps)},
                      {"seconds_a_step_on_own_machines", StepSeconds(r.config, r.largest, r.speed, 1)},
                      {"operations_per_second", r.speed.operations_per_second},
                      {"bytes_per_second", r.speed.bytes_per_second},
                      {"threads", r.speed.threads}};
  }
  object["ranks"] = Json::array();
  for (size_t i = 0; i < std::min(r.ranks.size(), kMostRanksInJson); ++i) {
    object["ranks"].push_back(RankJson(r, r.ranks[i]));
  }
}

Json JsonOf(const PlanReport& r) {
  Json object;
  object["recipe"] = r.recipe;
  object["processes"] = r.processes;
  object["steps"] = r.steps;
  object["parameters"] = ModelParameters(r.config.model).value();
  if (r.detailed) AddDetails(r, object);
  object["layouts"] = Json::array();
  for (const LayoutLine& l : r.layouts) {
    Json entry = LayoutJson(l.layout);
    entry["memory_of_the_fullest_rank"] = l.memory.value();
    entry["bytes_sent_by_the_busiest_rank"] = l.sent.value();
    entry["bytes_sent_by_all_ranks"] = l.sent_by_all.value();
    object["layouts"].push_back(std::move(entry));
  }
  return object;
}

int RunPlan(const PlanArguments& a, const Output& out) {
  const Result<PlanReport> report = MakeReport(a);
  if (!report.ok()) return out.Error(report.status());
  std::string text = TextOf(*report);
  text.pop_back();  // the last line's end is the output's
  out.Result(JsonOf(*report), text);
  return 0;
}

const bool registered = RegisterCommand(
    "plan", "Memory, arithmetic, network bytes, time and allowed layouts of a recipe", [](CLI::App& app) {
      auto a = std::make_shared<PlanArguments>();
      app.add_option("RECIPE", a->recipe, "Recipe (TOML)")->required();
      app.add_option("--processes", a->processes,
                     "Number of processes (default: that of the recipe's [layout])")
          ->check(CLI::Range(1, kMostProcesses));
      app.add_option("--set", a->set, "Override a field: --set layout.data=2 (repeatable)")
          ->allow_extra_args(false);
      app.add_flag("--no-measure", a->no_measure, "Do not time this machine: no estimate of time");
      app.footer(
          "Nothing is trained or written. Bytes are exact but where the output says \"at most\" or "
          "\"about\";\n"
          "time is an estimate. docs/guide/plan.md has the formulas.\n"
          "Example:\n  samestep plan examples/quickstart.toml\n"
          "  samestep plan recipe.toml --processes 8\n"
          "  samestep plan recipe.toml --set layout.data=4 --set layout.tensor=2 --json");
      return [a](const Output& out) { return RunPlan(*a, out); };
    });

}  // namespace
}  // namespace samestep
