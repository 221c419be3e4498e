#include "kernels/registry.h"

#include <map>
#include <memory>

namespace samestep {
namespace {

// Sorted by name; pointers stay valid while kernels are added.
std::map<std::string, std::unique_ptr<Kernel>, std::less<>>& Table() {
  static auto* table = new std::map<std::string, std::unique_ptr<Kernel>, std::less<>>;
  return *table;
}

}  // namespace

const Kernel& RegisterKernel(Kernel kernel) {
  SAMESTEP_CHECK(kernel.reference != nullptr && kernel.fast != nullptr && kernel.problems != nullptr);
  SAMESTEP_CHECK_LE(static_cast<int>(kernel.arguments.size()), Call::kMaxArguments);
  const std::string name = kernel.name;
  const auto [entry, added] = Table().emplace(name, std::make_unique<Kernel>(std::move(kernel)));
  if (!added) CheckFailed(__FILE__, __LINE__, "kernel registered once", name);
  return *entry->second;
}

const Kernel* FindKernel(std::string_view name) {
  const auto entry = Table().find(name);
  return entry == Table().end() ? nullptr : entry->second.get();
}

std::vector<const Kernel*> AllKernels() {
  std::vector<const Kernel*> kernels;
  for (const auto& [name, kernel] : Table()) kernels.push_back(kernel.get());
  return kernels;
}

Attribute IntegerAttribute(const char* name, int64_t value) { return {name, false, value, 0}; }
Attribute RealAttribute(const char* name, float value) { return {name, true, 0, value}; }

}  // namespace samestep
