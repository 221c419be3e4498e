// samestep kernels: the registry as a table.
#include "cli/command.h"
#include "kernels/catalogue.h"
#include "kernels/registry.h"

namespace samestep {
namespace {

int RunKernels(const Output& out) {
  nlohmann::ordered_json object = nlohmann::ordered_json::array();
  for (const Kernel* kernel : AllKernels()) {
    nlohmann::ordered_json arguments = nlohmann::ordered_json::array();
    for (const ArgumentSpec& a : kernel->arguments) arguments.push_back(a.role);
    nlohmann::ordered_json entry;
    entry["name"] = kernel->name;
    entry["version"] = kernel->version;
    entry["arguments"] = arguments;
    entry["summary"] = kernel->summary;
    object.push_back(entry);
  }
  nlohmann::ordered_json all;
  all["kernels"] = object;
  out.Result(all, OpCatalogue());
  return 0;
}

const bool registered = RegisterCommand("kernels", "The table of kernels, as Markdown", [](CLI::App&) {
  return [](const Output& out) { return RunKernels(out); };
});

}  // namespace
}  // namespace samestep
