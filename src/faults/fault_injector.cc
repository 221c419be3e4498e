#include "faults/fault_injector.h"

#include <cstdio>
#include <cstring>
#include <optional>
#include <random>

#include "comm/world.h"
#include "faults/mpi_sum.h"
#include "faults/reordered_call.h"
#include "kernels/registry.h"

namespace samestep {
namespace {

// Of several ranks each says which it is.
void Announce(const std::string& text) {
  const std::vector<LauncherView> launchers = LaunchersInEnvironment();
  const bool alone = launchers.empty() || launchers.front().ranks == 1;
  const std::string rank = alone ? "" : fmt::format("rank {}: ", launchers.front().rank);
  fmt::print(stderr, "samestep: PLANTED FAULT: {}{}\n", rank, text);
}

int64_t ElementSize(const TensorView& view) { return BitsOf(view.dtype) / 8; }

std::byte* ElementAt(const TensorView& view, int64_t element) {
  const int64_t at = element / view.columns() * view.row_stride() + element % view.columns();
  return static_cast<std::byte*>(view.data) + at * ElementSize(view);
}

// The elements' bytes, row after row.
std::string BytesOf(const TensorView& view) {
  const size_t row = static_cast<size_t>(view.columns() * ElementSize(view));
  std::string bytes(row * static_cast<size_t>(view.rows()), '\0');
  for (int64_t r = 0; r < view.rows(); ++r) {
    std::memcpy(bytes.data() + static_cast<size_t>(r) * row, ElementAt(view, r * view.columns()), row);
  }
  return bytes;
}

void SetBytes(const std::string& bytes, const TensorView& view) {
  const size_t row = static_cast<size_t>(view.columns() * ElementSize(view));
  for (int64_t r = 0; r < view.rows(); ++r) {
    std::memcpy(ElementAt(view, r * view.columns()), bytes.data() + static_cast<size_t>(r) * row, row);
  }
}

int64_t ElementsChanged(const std::string& before, const TensorView& view) {
  const std::string after = BytesOf(view);
  const size_t size = static_cast<size_t>(ElementSize(view));
  int64_t changed = 0;
  for (size_t at = 0; at < before.size(); at += size) {
    changed += std::memcmp(before.data() + at, after.data() + at, size) != 0;
  }
  return changed;
}

void FlipBit(const TensorView& view, int64_t element, int bit) {
  std::byte* const at = ElementAt(view, element) + bit / 8 % ElementSize(view);
  *at ^= std::byte{1} << (bit % 8);
}

// The first row from the middle on that another order changes; rounding hides it in some.
void CopyRowThatDiffers(const ReorderedCall& reordered, int output, const std::string& right,
                        const TensorView& view) {
  for (int64_t i = 0; i < view.rows() && ElementsChanged(right, view) == 0; ++i) {
    reordered.CopyRow(output, (view.rows() / 2 + i) % view.rows(), view);
  }
}

}  // namespace

FaultInjector::FaultInjector(FaultSpec spec) : spec_(std::move(spec)) {
  SAMESTEP_CHECK(CallContext::Current().interceptor == nullptr);
  CallContext::Current().interceptor = this;
  Announce(spec_.ToString());
}

FaultInjector::~FaultInjector() {
  CallContext::Current().interceptor = nullptr;
  if (!struck_) Announce("it never struck: the run had no such call");
}

int FaultInjector::OutputOf(const Call& call) const {
  for (int i = 0; i < call.argument_count(); ++i) {
    const Argument& argument = call.argument(i);
    const char* role = call.kernel().arguments[static_cast<size_t>(i)].role;
    if (argument.access == Access::kRead || !argument.view.present()) continue;
    if (spec_.output.empty() || spec_.output == role) return i;
  }
  return -1;
}

void FaultInjector::Execute(const Call& call) {
  const CallContext& context = CallContext::Current();
  if (!spec_.Matches(call.kernel().name, context.module)) return samestep::Execute(call);
  if (context.iteration != iteration_) {
    iteration_ = context.iteration;
    occurrence_ = 0;
  }
  const bool meant = occurrence_++ == spec_.occurrence;
  if (meant && iteration_ == spec_.iteration) return Strike(call);
  samestep::Execute(call);
  if (meant && iteration_ == spec_.iteration - 1 && spec_.kind == FaultKind::kStale && OutputOf(call) >= 0) {
    earlier_ = BytesOf(call.view(OutputOf(call)));
  }
}

void FaultInjector::Strike(const Call& call) {
  const int output = OutputOf(call);
  std::optional<ReorderedCall> reordered;
  if (spec_.kind == FaultKind::kChainOrder) reordered.emplace(call);
  samestep::Execute(call);
  if (output < 0 || call.view(output).elements() == 0) {
    return Announce("cannot strike: this call does not write the output that is named");
  }
  const TensorView& view = call.view(output);
  const std::string right = BytesOf(view);
  switch (spec_.kind) {
    case FaultKind::kChainOrder:
      reordered->Execute();
      CopyRowThatDiffers(*reordered, output, right, view);
      break;
    case FaultKind::kBitFlip:
      FlipBit(view, view.elements() / 2, spec_.bit);
      break;
    case FaultKind::kStale:
      if (earlier_.size() != right.size()) {
        return Announce("cannot strike: the same call was not seen in the iteration before");
      }
      SetBytes(earlier_, view);
      break;
    case FaultKind::kJitter:
      FlipBit(view, static_cast<int64_t>(std::random_device()() % static_cast<uint64_t>(view.elements())), 0);
      break;
    case FaultKind::kMpiSum:
      if (const Status status = SumByMpi(call.view(0), view); !status.ok()) return Announce(status.message());
      break;
  }
  struck_ = true;
  elements_changed_ = ElementsChanged(right, view);
  Announce(fmt::format("struck at iteration {}, module {}, kernel {}, occurrence {}: {} of {} elements of {}",
                       iteration_, CallContext::Current().module, spec_.kernel, spec_.occurrence,
                       elements_changed_, view.elements(),
                       call.kernel().arguments[static_cast<size_t>(output)].role));
}

}  // namespace samestep
