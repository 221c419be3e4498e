// samestep diff: do two runs say the same, and where do they part.
#include <memory>

#include "base/files.h"
#include "cli/command.h"
#include "locate/compare.h"
#include "locate/describe.h"

namespace samestep {
namespace {

struct DiffArguments {
  std::string a, b;
  std::string iterations = "all", ranks = "all";
  bool other_recipe = false, verify = false, no_verify = false;
};

Result<CompareOptions> OptionsOf(const DiffArguments& arguments) {
  CompareOptions options;
  SAMESTEP_ASSIGN_OR_RETURN(options.iterations, Selection::Parse(arguments.iterations, "--iterations"));
  SAMESTEP_ASSIGN_OR_RETURN(options.ranks, Selection::Parse(arguments.ranks, "--ranks"));
  options.other_recipe = arguments.other_recipe;
  if (arguments.verify) options.verify = CompareOptions::Verify::kYes;
  if (arguments.no_verify) options.verify = CompareOptions::Verify::kNo;
  return options;
}

int RunDiff(const DiffArguments& arguments, const Output& out) {
  const auto options = OptionsOf(arguments);
  if (!options.ok()) return out.Error(options.status());
  const auto comparison = CompareTraces(arguments.a, arguments.b, *options);
  if (!comparison.ok()) return out.Error(comparison.status());
  out.Result(DescribeJson(*comparison), DescribeText(*comparison));
  return comparison->ExitCode();
}

const bool registered = RegisterCommand(
    "diff", "Compare two traces: the iteration, phase, module and kernel where they part", [](CLI::App& app) {
      auto a = std::make_shared<DiffArguments>();
      app.add_option("A", a->a, "Folder of a trace (the SAMESTEP_TRACE of a run)")->required();
      app.add_option("B", a->b, "Folder of another")->required();
      app.add_option("--iterations", a->iterations, "Compare these only: 1-3,8 or 100:110");
      app.add_option("--ranks", a->ranks, "Compare these only");
      app.add_flag("--other-recipe", a->other_recipe, "Compare although the recipes differ");
      CLI::Option* verify =
          app.add_flag("--verify", a->verify, "Read the checksums of all blocks (default: up to 256 MiB)");
      app.add_flag("--no-verify", a->no_verify, "Read roll-ups only, where they agree")->excludes(verify);
      app.footer(
          "Exit codes: 0 same, 1 diverged, 2 cannot judge, 3 used wrongly.\n"
          "Example:\n  SAMESTEP_TRACE=trace-a samestep train recipe.toml --run a\n"
          "  SAMESTEP_TRACE=trace-b samestep train recipe.toml --run b\n  samestep diff trace-a trace-b");
      return [a](const Output& out) { return RunDiff(*a, out); };
    });

}  // namespace
}  // namespace samestep
