#include "numerics/simd_target.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "numerics/targets.h"
//
#include "hwy/targets.h"

namespace samestep {
namespace {

std::string NameOf(int64_t target) {
  std::string name = hwy::TargetName(target);
  if (name.starts_with("NEON")) return "neon";
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

// What this program holds and this machine has, whatever is forced now. Best first.
std::vector<int64_t> Available() {
  static const std::vector<int64_t> available = [] {
    const int64_t held = HWY_TARGETS;
    hwy::SetSupportedTargetsForTest(0);
    int64_t rest = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & held;
    std::vector<int64_t> targets;
    for (; rest != 0; rest &= rest - 1) targets.push_back(rest & -rest);
    return targets;
  }();
  return available;
}

int64_t& Forced() {
  static int64_t forced = 0;
  return forced;
}

}  // namespace

std::vector<std::string> AvailableSimdTargets() {
  std::vector<std::string> names;
  for (int64_t target : Available()) {
    if (names.empty() || names.back() != NameOf(target)) names.push_back(NameOf(target));
  }
  return names;
}

std::string CurrentSimdTarget() { return NameOf(Forced() != 0 ? Forced() : Available().front()); }

Status ForceSimdTarget(std::string_view name) {
  for (int64_t target : Available()) {
    if (name != "best" && name != NameOf(target)) continue;
    Forced() = target;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);  // what HWY_DYNAMIC_DISPATCH reads
    return Status();
  }
  return UsageError("SIMD target {}: this machine and program have {}; or say best", name,
                    fmt::join(AvailableSimdTargets(), ", "));
}

}  // namespace samestep
