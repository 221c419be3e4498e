// command.h: how a subcommand joins the program: one file a subcommand, which registers itself.
//
//   const bool registered = RegisterCommand("data pack", "Pack text into .bin/.idx", [](CLI::App& app) {
//     auto options = std::make_shared<PackOptions>();
//     app.add_option("FILE", options->files, "Text or JSONL files")->required();
//     return [options](const Output& out) -> int { ... };
//   });
//
// "data pack" becomes a subcommand of `data`. The main program adds --json to each. The function returned
// runs the command and gives its exit code: 0 done or same, 1 diverged, 2 cannot judge or bad input, 3 used
// wrongly, 4 training met a value that is not finite.
//
// Determinism: commands are listed by name; output holds no times unless a command says so.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"

namespace samestep {

// Where results and errors of a command go.
class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  bool json() const { return json_; }
  bool silent() const { return silent_; }
  // The same for a process that must not speak, since another says it.
  Output Silent() const {
    Output out(json_);
    out.silent_ = true;
    return out;
  }
  // With --json: the one JSON object of the command, on standard output. `text` otherwise.
  void Result(const nlohmann::ordered_json& object, const std::string& text) const;
  // A line of text for people; nothing with --json.
  void Line(const std::string& text) const;
  // "samestep: error: …" on standard error (with --json also {"error": …} on standard output); the exit code.
  int Error(const Status& status) const;
  void Warning(const std::string& text) const;  // on standard error

 private:
  bool json_;
  bool silent_ = false;
};

using CommandRun = std::function<int(const Output&)>;
using CommandSetup = std::function<CommandRun(CLI::App&)>;

bool RegisterCommand(const std::string& name, const std::string& summary, CommandSetup setup);

// The whole program; `argv` as main has it.
int CliMain(int argc, char** argv);

// Whether people look at this stream, so that colour and progress are welcome.
bool IsTerminal(int descriptor);

}  // namespace samestep
