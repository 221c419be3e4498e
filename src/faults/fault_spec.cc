#include "faults/fault_spec.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "faults/reordered_call.h"
#include "kernels/registry.h"

namespace samestep {
namespace {

constexpr FaultKind kKinds[] = {FaultKind::kChainOrder, FaultKind::kBitFlip, FaultKind::kStale,
                                FaultKind::kJitter, FaultKind::kMpiSum};

Status SetNumber(std::string_view field, std::string_view value, int64_t least, int64_t most, int64_t& out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error == std::errc() && end == value.data() + value.size() && out >= least && out <= most) return {};
  return UsageError("fault: {}={}; expected a whole number from {} to {}", field, value, least, most);
}

Status SetKind(std::string_view value, FaultSpec& spec) {
  std::string known;
  for (const FaultKind kind : kKinds) {
    if (NameOf(kind) == value) {
      spec.kind = kind;
      return {};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", NameOf(kind));
  }
  return UsageError("fault: kind={}; expected one of {}", value, known);
}

Status SetField(std::string_view field, std::string_view value, FaultSpec& spec) {
  constexpr int64_t kMost = int64_t{1} << 53;
  if (field == "kernel") {
    spec.kernel = value;
  } else if (field == "module") {
    spec.module = value;
  } else if (field == "output") {
    spec.output = value;
  } else if (field == "iteration") {
    return SetNumber(field, value, 1, kMost, spec.iteration);
  } else if (field == "occurrence") {
    return SetNumber(field, value, 0, kMost, spec.occurrence);
  } else if (field == "bit") {
    int64_t bit = 0;
    SAMESTEP_RETURN_IF_ERROR(SetNumber(field, value, 0, 63, bit));
    spec.bit = static_cast<int>(bit);
  } else if (field == "rank") {
    return SetNumber(field, value, 0, kMost, spec.rank);
  } else if (field == "kind") {
    return SetKind(value, spec);
  } else {
    return UsageError(
        "fault: no field {}; expected kernel, module, iteration, occurrence, kind, output, bit or rank",
        field);
  }
  return {};
}

std::string NamesOf(const std::vector<const Kernel*>& kernels) {
  std::string names;
  for (const Kernel* kernel : kernels) names += (names.empty() ? "" : ", ") + kernel->name;
  return names;
}

Status CheckOutput(const Kernel& kernel, const FaultSpec& spec) {
  std::string outputs;
  for (const ArgumentSpec& argument : kernel.arguments) {
    if (argument.access == Access::kRead) continue;
    if (spec.output.empty() || spec.output == argument.role) return {};
    outputs += fmt::format("{}{}", outputs.empty() ? "" : ", ", argument.role);
  }
  return UsageError("fault: output={}; {} writes {}", spec.output, kernel.name, outputs);
}

Status CheckFits(const FaultSpec& spec) {
  const Kernel* kernel = FindKernel(spec.kernel);
  if (kernel == nullptr) {
    return UsageError("fault: kernel={}; expected one of {}", spec.kernel, NamesOf(AllKernels()));
  }
  SAMESTEP_RETURN_IF_ERROR(CheckOutput(*kernel, spec));
  if (spec.kind == FaultKind::kChainOrder && !CanReorder(*kernel)) {
    std::vector<const Kernel*> fitting = AllKernels();
    std::erase_if(fitting, [](const Kernel* k) { return !CanReorder(*k); });
    return UsageError("fault: kind=chain-order has no meaning for {}; it has for {}", kernel->name,
                      NamesOf(fitting));
  }
  if (spec.kind == FaultKind::kMpiSum && kernel->name != "sum.tree") {
    return UsageError("fault: kind=mpi-sum has no meaning for {}; it has for sum.tree", kernel->name);
  }
  if (spec.kind == FaultKind::kMpiSum && spec.rank >= 0) {
    return UsageError("fault: kind=mpi-sum with rank={}; all ranks have to take part, leave rank out",
                      spec.rank);
  }
  if (spec.kind == FaultKind::kStale && spec.iteration < 2) {
    return UsageError("fault: kind=stale repeats the iteration before; expected iteration=2 or later");
  }
  return {};
}

}  // namespace

std::string_view NameOf(FaultKind kind) {
  constexpr std::string_view kNames[] = {"chain-order", "bit-flip", "stale", "jitter", "mpi-sum"};
  return kNames[static_cast<size_t>(kind)];
}

std::string FaultSpec::ToString() const {
  std::string text = "kernel=" + kernel;
  if (!module.empty()) text += ",module=" + module;
  text += fmt::format(",iteration={},occurrence={},kind={}", iteration, occurrence, NameOf(kind));
  if (!output.empty()) text += ",output=" + output;
  if (kind == FaultKind::kBitFlip) text += fmt::format(",bit={}", bit);
  if (rank >= 0) text += fmt::format(",rank={}", rank);
  return text;
}

bool FaultSpec::Matches(std::string_view kernel_name, std::string_view module_path) const {
  if (kernel_name != kernel) return false;
  if (module.empty()) return true;
  const std::string path = fmt::format(".{}.", module_path);
  return path.find(fmt::format(".{}.", module)) != std::string::npos;
}

Result<FaultSpec> ParseFaultSpec(std::string_view text) {
  FaultSpec spec;
  std::vector<std::string_view> seen;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) return UsageError("fault: \"{}\"; expected FIELD=VALUE", item);
    const std::string_view field = item.substr(0, equals);
    if (std::find(seen.begin(), seen.end(), field) != seen.end()) {
      return UsageError("fault: {} is given twice", field);
    }
    seen.push_back(field);
    SAMESTEP_RETURN_IF_ERROR(SetField(field, item.substr(equals + 1), spec));
    at = end + 1;
  }
  for (const std::string_view field : {"kernel", "iteration", "kind"}) {
    if (std::find(seen.begin(), seen.end(), field) == seen.end()) {
      return UsageError("fault: no {}; expected kernel=NAME,iteration=N,kind=KIND", field);
    }
  }
  SAMESTEP_RETURN_IF_ERROR(CheckFits(spec));
  return spec;
}

}  // namespace samestep
