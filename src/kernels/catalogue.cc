#include "kernels/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "kernels/registry.h"

namespace samestep {
namespace {

std::string ArgumentList(const Kernel& kernel) {
  std::string text;
  for (const ArgumentSpec& a : kernel.arguments) {
    const char* mark = a.access == Access::kRead ? "" : a.access == Access::kWrite ? " (out)" : " (in, out)";
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", a.role, mark);
  }
  return text;
}

std::string ProblemList(const Kernel& kernel) {
  std::vector<std::string> labels;
  for (const Problem& p : kernel.problems()) {
    if (!p.timed) labels.push_back(p.label);
  }
  return fmt::format("{}", fmt::join(labels, "; "));
}

}  // namespace

std::string OpCatalogue() {
  std::string page =
      "# Kernels\n\n"
      "Everything that computes is one of these. Each has a scalar reference that reads like the page of\n"
      "numerics, and a fast implementation with the same bits: tested on every instruction set of the "
      "machine,\n"
      "with 1 to 8 threads, under hostile schedules, unaligned, with poisoned outputs. Made from the "
      "registry by\n"
      "`OpCatalogue()`; do not edit.\n\n"
      "| kernel | version | arguments | what it computes, and the order of its sums | tested problems |\n"
      "|---|---|---|---|---|\n";
  for (const Kernel* kernel : AllKernels()) {
    page += fmt::format("| `{}` | {} | {} | {} | {} |\n", kernel->name, kernel->version,
                        ArgumentList(*kernel), kernel->summary, ProblemList(*kernel));
  }
  return page;
}

}  // namespace samestep
