#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>

#include "base/version.h"
#include "comm/world.h"

namespace samestep {
namespace {

struct Registered {
  std::string summary;
  CommandSetup setup;
};

std::map<std::string, Registered>& Commands() {
  static auto* commands = new std::map<std::string, Registered>;
  return *commands;
}

constexpr const char* kFooter =
    "Exit codes: 0 done or same, 1 diverged, 2 cannot judge or bad input, 3 used wrongly,\n"
    "            4 training met a value that is not finite.\n"
    "Environment: SAMESTEP_TRACE (folder; unset: nothing is recorded), SAMESTEP_LEVEL (iteration, phase, "
    "module,\n"
    "  kernel, kernel-reread), SAMESTEP_ITERATIONS, SAMESTEP_RANKS, SAMESTEP_CAPTURE.";

// A result that could not be written is not a success: CliMain looks at this.
bool output_failed = false;

void Print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  output_failed = std::fflush(stdout) != 0 || !written || output_failed;
}

bool AsksForJson(int argc, char** argv) {
  return std::any_of(argv, argv + argc,
                     [](const char* argument) { return std::string_view(argument) == "--json"; });
}

// Of processes that a launcher started with the same wrong arguments, one says so.
Output Speaker(bool json) {
  const std::vector<LauncherView> launchers = LaunchersInEnvironment();
  const bool speaks = launchers.empty() || launchers.front().rank == 0;
  return speaks ? Output(json) : Output(json).Silent();
}

// Empty where the first argument is an option, a command or a group of commands.
std::string UnknownCommand(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty() || first[0] == '-') return "";
  std::string known;
  for (const auto& [name, command] : Commands()) {
    if (name.substr(0, name.find(' ')) == first) return "";
    known += (known.empty() ? "" : ", ") + name;
  }
  return fmt::format("no command \"{}\"; there are: {}", first, known);
}

CLI::App* ParentOf(CLI::App& app, const std::string& name) {
  const size_t space = name.find(' ');
  if (space == std::string::npos) return &app;
  const std::string parent = name.substr(0, space);
  const auto named = app.get_subcommands([&](CLI::App* sub) { return sub->get_name() == parent; });
  if (!named.empty()) return named.front();
  CLI::App* added = app.add_subcommand(parent, "Commands on " + parent);
  added->require_subcommand(1);
  return added;
}

}  // namespace

bool IsTerminal(int descriptor) { return ::isatty(descriptor) == 1; }

void Output::Result(const nlohmann::ordered_json& object, const std::string& text) const {
  if (silent_) return;
  const std::string line =
      json_ ? object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : text;
  Print(line.empty() || line.back() == '\n' ? line : line + "\n");
}

void Output::Line(const std::string& text) const {
  if (!json_ && !silent_) Print(text + "\n");
}

int Output::Error(const Status& status) const {
  if (silent_) return status.ExitCode();
  fmt::print(stderr, "samestep: error: {}\n", status.message());
  if (json_) {
    const nlohmann::ordered_json object = {{"error", status.message()}, {"exit_code", status.ExitCode()}};
    Result(object, "");
  }
  return status.ExitCode();
}

void Output::Warning(const std::string& text) const {
  if (!silent_) fmt::print(stderr, "samestep: warning: {}\n", text);
}

bool RegisterCommand(const std::string& name, const std::string& summary, CommandSetup setup) {
  return Commands().emplace(name, Registered{summary, std::move(setup)}).second;
}

int CliMain(int argc, char** argv) {
  CLI::App app("Samestep: pretraining whose every bit repeats, and the kernel where two runs part",
               "samestep");
  app.require_subcommand(1);
  app.footer(kFooter);
  app.set_version_flag("--version",
                       fmt::format("samestep {}, numerics profile {}", kVersion, kNumericsProfile));
  bool json = false;
  int exit_code = 0;
  for (auto& [name, command] : Commands()) {
    const size_t space = name.find(' ');
    const std::string last = space == std::string::npos ? name : name.substr(space + 1);
    CLI::App* sub = ParentOf(app, name)->add_subcommand(last, command.summary);
    sub->add_flag("--json", json, "Print one JSON object instead of text");
    CommandRun run = command.setup(*sub);
    sub->final_callback([run, &json, &exit_code] { exit_code = run(Output(json)); });
  }
  if (const std::string unknown = UnknownCommand(argc, argv); !unknown.empty()) {
    return Speaker(AsksForJson(argc, argv)).Error(UsageError("{}", unknown));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return Speaker(AsksForJson(argc, argv)).Error(UsageError("{}; --help lists the options", error.what()));
  } catch (const std::exception& error) {  // the system's: memory, output
    return Output(json).Error(IoError("{}", error.what()));
  }
  if (output_failed) {
    fmt::print(stderr, "samestep: error: standard output could not be written: {}\n", std::strerror(errno));
    if (exit_code == 0) exit_code = 2;
  }
  return exit_code;
}

}  // namespace samestep
