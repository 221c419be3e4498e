// Every registered kernel against its scalar reference, bit for bit: on each SIMD target of this machine,
// with several numbers of threads, under hostile schedules, unaligned, with poisoned outputs and guarded
// padding.
#include "kernels/registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <set>

#include "base/parallel_for.h"
#include "kernels/catalogue.h"
#include "kernels/problem_memory.h"
#include "numerics/simd_target.h"

namespace samestep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The bytes of the element (or the four bytes) at `offset`, most significant first.
std::string HexAt(const std::string& bytes, size_t offset, size_t size) {
  std::string text = "0x";
  for (size_t i = size; i-- > 0;) text += fmt::format("{:02x}", static_cast<uint8_t>(bytes[offset + i]));
  return text;
}

// "argument dst: element [1, 4] is 0x… where `origin` has 0x…", for the first difference of each argument.
std::string Differences(const ProblemMemory& memory, const std::vector<std::string>& expected,
                        const std::string& origin) {
  const std::vector<std::string> actual = memory.Bytes();
  std::string text;
  for (int k = 0; k < memory.call().argument_count(); ++k) {
    const std::string &a = actual[static_cast<size_t>(k)], &e = expected[static_cast<size_t>(k)];
    if (a == e) continue;
    size_t at = 0;
    while (a[at] == e[at]) ++at;
    const size_t size = static_cast<size_t>(BitsOf(memory.call().view(k).dtype)) / 8;
    const size_t element = at / size * size;  // guards and misalignment are whole elements
    text += fmt::format("argument {}: {} is {} where {} has {}; ", memory.call().kernel().arguments[k].role,
                        memory.Locate(k, at), HexAt(a, element, size), origin, HexAt(e, element, size));
  }
  return text;
}

bool HoldsNaN(const TensorView& view) {
  if (view.dtype != DType::kF32) return false;
  for (int64_t row = 0; row < view.rows(); ++row) {
    for (int64_t i = 0; i < view.columns(); ++i) {
      if (std::isnan(view.f32()[row * view.row_stride() + i])) return true;
    }
  }
  return false;
}

// One way of running the fast implementation.
struct Trial {
  std::string target;
  Schedule schedule;
  std::string ToString() const {
    return fmt::format("target {}, {} threads, hostile seed {}", target, schedule.threads,
                       schedule.hostile_seed);
  }
};

std::vector<Trial> Trials(std::initializer_list<int> threads, std::initializer_list<uint64_t> seeds) {
  std::vector<Trial> trials;
  for (const std::string& target : AvailableSimdTargets()) {
    for (const int count : threads) {
      for (const uint64_t seed : seeds) trials.push_back({target, {count, seed}});
    }
  }
  return trials;
}

// What is wrong with one problem of a kernel; empty if nothing.
std::vector<std::string> FaultsOf(const Kernel& kernel, const Problem& problem, bool misaligned,
                                  const std::vector<Trial>& trials) {
  std::vector<std::string> faults;
  const auto report = [&](const std::string& where, const std::string& what) {
    faults.push_back(fmt::format("{}, problem \"{}\"{}, {}: {}", kernel.name, problem.label,
                                 misaligned ? ", misaligned" : "", where, what));
  };
  ProblemMemory memory(kernel, problem, {.misaligned = misaligned});
  const std::vector<std::string> before = memory.Bytes();
  kernel.reference(memory.call());
  const std::vector<std::string> expected = memory.Bytes();

  // The reference: writes its outputs only, writes all of them, and no NaN, whose payload has no contract.
  for (int k = 0; k < memory.call().argument_count(); ++k) {
    const Argument& argument = memory.call().argument(k);
    if (!argument.view.present()) continue;
    const char* role = kernel.arguments[k].role;
    const std::string &b = before[static_cast<size_t>(k)], &e = expected[static_cast<size_t>(k)];
    if (argument.access == Access::kRead && b != e) report("reference", fmt::format("wrote input {}", role));
    if (HoldsNaN(argument.view)) report("reference", fmt::format("left NaN in {}", role));
    for (size_t i = 0; i < e.size(); ++i) {
      if (b[i] == e[i] || memory.IsElement(k, i)) continue;
      report("reference", fmt::format("wrote {}: {}", role, memory.Locate(k, i)));
      break;
    }
  }
  ProblemMemory zeroed(kernel, problem, {.misaligned = misaligned, .poison = 0});
  kernel.reference(zeroed.call());
  const std::string of_poison = Differences(zeroed, expected, "a run after poison");
  if (!of_poison.empty()) report("reference", "depends on what its outputs held before: " + of_poison);

  for (const Trial& trial : trials) {
    memory.Reset();
    EXPECT_TRUE(ForceSimdTarget(trial.target).ok());
    SetSchedule(trial.schedule);
    kernel.fast(memory.call());
    const std::string differences = Differences(memory, expected, "the reference");
    if (!differences.empty()) report(trial.ToString(), differences);
  }
  EXPECT_TRUE(ForceSimdTarget("best").ok());
  SetSchedule({});
  return faults;
}

// What is wrong with a kernel's table of problems: none, or an argument that none has.
std::vector<std::string> GapsOf(const Kernel& kernel) {
  std::set<size_t> seen;
  std::set<std::string> labels;
  bool any = false;
  std::vector<std::string> gaps;
  for (const Problem& problem : kernel.problems()) {
    if (!labels.insert(problem.label).second)
      gaps.push_back(kernel.name + " has two problems " + problem.label);
    if (problem.arguments.size() != kernel.arguments.size()) {
      gaps.push_back(
          fmt::format("{}, problem \"{}\" has another number of arguments", kernel.name, problem.label));
    }
    if (problem.timed) continue;
    any = true;
    for (size_t k = 0; k < problem.arguments.size(); ++k) {
      if (problem.arguments[k].shape.rank() != 0) seen.insert(k);
    }
  }
  if (!any) gaps.push_back(kernel.name + " has no problem to test");
  for (size_t k = 0; k < kernel.arguments.size(); ++k) {
    if (!seen.contains(k)) {
      gaps.push_back(fmt::format("{}: no problem has argument {}", kernel.name, kernel.arguments[k].role));
    }
  }
  return gaps;
}

std::vector<std::string> FaultsOf(const Kernel& kernel, const std::vector<Trial>& aligned,
                                  const std::vector<Trial>& misaligned) {
  std::vector<std::string> faults = GapsOf(kernel);
  for (const Problem& problem : kernel.problems()) {
    if (problem.timed) continue;
    for (const bool shifted : {false, true}) {
      const auto more = FaultsOf(kernel, problem, shifted, shifted ? misaligned : aligned);
      faults.insert(faults.end(), more.begin(), more.end());
    }
  }
  return faults;
}

class RegisteredKernel : public testing::TestWithParam<const Kernel*> {};

TEST_P(RegisteredKernel, HasTheBitsOfItsReference) {
  const Kernel& kernel = *GetParam();
  EXPECT_THAT(FaultsOf(kernel, Trials({1, 2, 3, 8}, {0, 11, 12}), Trials({3}, {0, 13})), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Registry, RegisteredKernel, testing::ValuesIn(AllKernels()), [](const auto& test) {
  std::string name = test.param->name;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
});

TEST(Registry, HoldsTheKernelsOfADecoder) {
  for (const char* name : {"adamw", "attention.backward", "attention.forward", "cross_entropy",
                           "embedding.backward", "embedding.forward", "exact_sum.squares", "gelu.forward",
                           "layer_norm.backward", "linear.backward_data", "linear.backward_weights",
                           "linear.forward", "rms_norm.forward", "sum.tree", "swiglu.forward"}) {
    EXPECT_NE(FindKernel(name), nullptr) << name;
  }
}

TEST(OpCatalogue, NamesEveryKernelAndItsSummary) {
  const std::string page = OpCatalogue();
  for (const Kernel* kernel : AllKernels()) {
    EXPECT_THAT(page, HasSubstr("`" + kernel->name + "`"));
    EXPECT_THAT(kernel->summary, Not(IsEmpty())) << kernel->name;
  }
}

// Negative controls: kernels that are wrong in one way each, which the same checks must report. They compute
// dst[row] = the sum of src[row] from left to right, and are not registered.

float* RowOf(const TensorView& view, int64_t row) { return view.f32() + row * view.row_stride(); }

float SumOf(const float* x, int64_t count, float start = 0) {
  for (int64_t i = 0; i < count; ++i) start = start + x[i];
  return start;
}

void SumReference(const Call& call) {
  const TensorView& src = call.view(0);
  for (int64_t row = 0; row < src.rows(); ++row)
    *RowOf(call.view(1), row) = SumOf(RowOf(src, row), src.columns());
}

void SumInAnotherOrder(const Call& call) {
  const TensorView& src = call.view(0);
  for (int64_t row = 0; row < src.rows(); ++row) {
    float sum = 0;
    for (int64_t i = src.columns(); i-- > 0;) sum = sum + RowOf(src, row)[i];
    *RowOf(call.view(1), row) = sum;
  }
}

void SumByThreads(const Call& call) {
  const TensorView& src = call.view(0);
  for (int64_t row = 0; row < src.rows(); ++row) {
    const int64_t part = (src.columns() + ThreadCount() - 1) / ThreadCount();
    float sum = 0;
    for (int64_t i = 0; i < src.columns(); i += part) {
      sum = sum + SumOf(RowOf(src, row) + i, std::min(part, src.columns() - i));
    }
    *RowOf(call.view(1), row) = sum;
  }
}

void SumIntoWhatWasThere(const Call& call) {
  const TensorView& src = call.view(0);
  for (int64_t row = 0; row < src.rows(); ++row) {
    float* dst = RowOf(call.view(1), row);
    *dst = SumOf(RowOf(src, row), src.columns(), *dst);
  }
}

void SumWithPadding(const Call& call) {
  const TensorView& src = call.view(0);
  for (int64_t row = 0; row < src.rows(); ++row) {
    *RowOf(call.view(1), row) = SumOf(RowOf(src, row), src.row_stride());
  }
}

void SumAndWriteBehind(const Call& call) {
  SumReference(call);
  RowOf(call.view(1), call.view(1).rows() - 1)[1] = 0;
}

void SumAndChangeInput(const Call& call) {
  SumReference(call);
  *RowOf(call.view(0), 1) = 0;
}

void SumAllRowsButOne(const Call& call) {
  const TensorView& src = call.view(0);
  for (int64_t row = 1; row < src.rows(); ++row)
    *RowOf(call.view(1), row) = SumOf(RowOf(src, row), src.columns());
}

// Right until tasks run out of order: each task leaves its row's sum in one place for the next.
void SumThatTrustsTheOrderOfTasks(const Call& call) {
  const TensorView& src = call.view(0);
  std::atomic<int64_t> next{0};
  ParallelFor(src.rows(),
              [&](int64_t row) { *RowOf(call.view(1), row) = SumOf(RowOf(src, next++), src.columns()); });
}

std::vector<Problem> SumProblems() {
  return {{.label = "5x100",
           .arguments = {{{5, 100}, Fill::kNormal, 1, DType::kF32, 3},
                         {{5, 1}, Fill::kOutput, 1, DType::kF32, 2}},
           .attributes = {}}};
}

Kernel SumKernel(void (*reference)(const Call&), void (*fast)(const Call&)) {
  return {.name = "test.sum",
          .arguments = {{"src", Access::kRead}, {"dst", Access::kWrite}},
          .reference = reference,
          .fast = fast,
          .problems = SumProblems,
          .summary = ""};
}

std::string AllFaults(void (*reference)(const Call&), void (*fast)(const Call&)) {
  std::string text;
  for (const std::string& fault :
       FaultsOf(SumKernel(reference, fast), Trials({1, 3}, {0, 11}), Trials({2}, {0}))) {
    text += fault + "\n";
  }
  return text;
}

TEST(NegativeControl, RightKernelPasses) { EXPECT_EQ(AllFaults(SumReference, SumReference), ""); }

TEST(NegativeControl, AnotherOrderOfSum) {
  const std::string faults = AllFaults(SumReference, SumInAnotherOrder);
  EXPECT_THAT(faults, HasSubstr("test.sum, problem \"5x100\", target " + AvailableSimdTargets().front() +
                                ", 1 threads, hostile seed 0: argument dst: element ["));
  EXPECT_THAT(faults, HasSubstr("misaligned"));
}

TEST(NegativeControl, OrderThatFollowsThreads) {
  const std::string faults = AllFaults(SumReference, SumByThreads);
  EXPECT_THAT(faults, HasSubstr("3 threads"));
  EXPECT_THAT(faults, Not(HasSubstr("1 threads")));
}

TEST(NegativeControl, ReadsItsPoisonedOutput) {
  EXPECT_THAT(AllFaults(SumReference, SumIntoWhatWasThere), HasSubstr("argument dst: element [0, 0] is 0x"));
  EXPECT_THAT(AllFaults(SumIntoWhatWasThere, SumIntoWhatWasThere),
              HasSubstr("depends on what its outputs held before"));
}

TEST(NegativeControl, ReadsPadding) {
  EXPECT_THAT(AllFaults(SumReference, SumWithPadding), HasSubstr("argument dst: element [0, 0]"));
  EXPECT_THAT(AllFaults(SumWithPadding, SumWithPadding), HasSubstr("left NaN in dst"));
}

TEST(NegativeControl, WritesPadding) {
  EXPECT_THAT(AllFaults(SumReference, SumAndWriteBehind),
              HasSubstr("argument dst: byte 52 outside its elements"));
  EXPECT_THAT(AllFaults(SumAndWriteBehind, SumAndWriteBehind),
              HasSubstr("reference: wrote dst: byte 52 outside"));
}

TEST(NegativeControl, WritesAnInput) {
  EXPECT_THAT(AllFaults(SumReference, SumAndChangeInput), HasSubstr("argument src: element [1, 0]"));
  EXPECT_THAT(AllFaults(SumAndChangeInput, SumAndChangeInput), HasSubstr("reference: wrote input src"));
}

TEST(NegativeControl, LeavesOutAnElement) {
  EXPECT_THAT(AllFaults(SumReference, SumAllRowsButOne), HasSubstr("element [0, 0] is 0xffffffff"));
}

TEST(NegativeControl, TrustsTheOrderOfTasks) {
  const std::string faults = AllFaults(SumReference, SumThatTrustsTheOrderOfTasks);
  EXPECT_THAT(faults, HasSubstr("hostile seed 11"));
  EXPECT_THAT(faults, Not(HasSubstr("1 threads, hostile seed 0")));
}

TEST(NegativeControl, NoProblems) {
  Kernel kernel = SumKernel(SumReference, SumReference);
  kernel.problems = [] { return std::vector<Problem>(); };
  EXPECT_THAT(GapsOf(kernel),
              ElementsAre("test.sum has no problem to test", "test.sum: no problem has argument src",
                          "test.sum: no problem has argument dst"));
}

TEST(NegativeControl, AnArgumentThatNoProblemHas) {
  Kernel kernel = SumKernel(SumReference, SumReference);
  kernel.arguments.push_back({"bias", Access::kRead});
  kernel.problems = [] {
    std::vector<Problem> problems = SumProblems();
    problems[0].arguments.push_back({});
    return problems;
  };
  EXPECT_THAT(GapsOf(kernel), ElementsAre("test.sum: no problem has argument bias"));
}

}  // namespace
}  // namespace samestep
