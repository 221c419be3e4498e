#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "faults/fault_injector.h"
#include "faults/fault_spec.h"
#include "faults/reordered_call.h"
#include "kernels/attention/attention.h"
#include "kernels/problem_memory.h"
#include "kernels/registry.h"
#include "kernels/sum/sum.h"

namespace samestep {
namespace {

using testing::HasSubstr;

FaultSpec Parsed(const std::string& text) {
  const Result<FaultSpec> spec = ParseFaultSpec(text);
  EXPECT_TRUE(spec.ok()) << spec.status().message();
  return spec.ok() ? *spec : FaultSpec{};
}

std::string Refusal(const std::string& text) {
  const Result<FaultSpec> spec = ParseFaultSpec(text);
  EXPECT_FALSE(spec.ok()) << text;
  if (spec.ok()) return "";
  EXPECT_EQ(spec.status().ExitCode(), 3);
  return spec.status().message();
}

TEST(FaultSpecTest, ReadsEveryField) {
  const FaultSpec spec = Parsed(
      "kernel=linear.forward,module=layers.1.mlp.down_proj,iteration=57,occurrence=2,kind=bit-flip,output="
      "dst,"
      "bit=30");
  EXPECT_EQ(spec.kernel, "linear.forward");
  EXPECT_EQ(spec.module, "layers.1.mlp.down_proj");
  EXPECT_EQ(spec.iteration, 57);
  EXPECT_EQ(spec.occurrence, 2);
  EXPECT_EQ(spec.kind, FaultKind::kBitFlip);
  EXPECT_EQ(spec.output, "dst");
  EXPECT_EQ(spec.bit, 30);
  EXPECT_EQ(Parsed(spec.ToString()).ToString(), spec.ToString());
}

TEST(FaultSpecTest, StrikesOneRankOrAll) {
  const FaultSpec all = Parsed("kernel=sum.tree,module=model.norm.weight,iteration=3,kind=mpi-sum");
  EXPECT_EQ(all.kind, FaultKind::kMpiSum);
  EXPECT_TRUE(all.StrikesRank(0) && all.StrikesRank(5));
  const FaultSpec one = Parsed("kernel=adamw,iteration=3,kind=bit-flip,rank=1");
  EXPECT_TRUE(one.StrikesRank(1));
  EXPECT_FALSE(one.StrikesRank(0) || one.StrikesRank(2));
  EXPECT_EQ(Parsed(one.ToString()).rank, 1);
  EXPECT_THAT(Refusal("kernel=adamw,iteration=3,kind=bit-flip,rank=-1"), HasSubstr("rank=-1"));
  EXPECT_THAT(Refusal("kernel=sum.add,iteration=3,kind=mpi-sum"), HasSubstr("it has for sum.tree"));
  EXPECT_THAT(Refusal("kernel=sum.tree,iteration=3,kind=mpi-sum,rank=1"), HasSubstr("leave rank out"));
}

TEST(FaultSpecTest, RefusesWhatCannotBePlanted) {
  EXPECT_THAT(Refusal(""), HasSubstr("expected FIELD=VALUE"));
  EXPECT_THAT(Refusal("kernel=linear.forward,kind=stale"), HasSubstr("no iteration"));
  EXPECT_THAT(Refusal("kernel=linear.forwards,iteration=1,kind=bit-flip"), HasSubstr("linear.forward,"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1,kind=wrong"), HasSubstr("chain-order, bit-flip"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=0,kind=bit-flip"), HasSubstr("from 1 to"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1x,kind=bit-flip"), HasSubstr("iteration=1x"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1,kind=bit-flip,bit=64"), HasSubstr("bit=64"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1,kind=bit-flip,colour=red"), HasSubstr("colour"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1,iteration=2,kind=bit-flip"), HasSubstr("twice"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1,kind=bit-flip,output=src"), HasSubstr("writes dst"));
  EXPECT_THAT(Refusal("kernel=linear.forward,iteration=1,kind=stale"), HasSubstr("iteration=2"));
  EXPECT_THAT(Refusal("kernel=adamw,iteration=1,kind=chain-order"),
              HasSubstr("it has for attention.backward"));
}

TEST(FaultSpecTest, ModulesMatchByWholeComponents) {
  const FaultSpec spec = Parsed("kernel=rope.forward,module=layers.1,iteration=1,kind=bit-flip");
  EXPECT_TRUE(spec.Matches("rope.forward", "model.layers.1.self_attn"));
  EXPECT_TRUE(spec.Matches("rope.forward", "layers.1"));
  EXPECT_FALSE(spec.Matches("rope.forward", "model.layers.10.self_attn"));
  EXPECT_FALSE(spec.Matches("rope.backward", "model.layers.1.self_attn"));
}

// Which elements of an output a fault changed, and by how much at most, relative to its largest element.
struct Change {
  std::set<int64_t> rows;
  int64_t elements = 0;
  double largest = 0;
};

std::vector<float> Values(const TensorView& view) {
  std::vector<float> values;
  for (int64_t row = 0; row < view.rows(); ++row) {
    const float* begin = view.f32() + row * view.row_stride();
    values.insert(values.end(), begin, begin + view.columns());
  }
  return values;
}

Change ChangeBetween(const std::vector<float>& right, const TensorView& view) {
  const std::vector<float> wrong = Values(view);
  Change change;
  double scale = 0;
  for (const float x : right) scale = std::max(scale, std::abs(static_cast<double>(x)));
  for (size_t i = 0; i < right.size(); ++i) {
    if (std::memcmp(&right[i], &wrong[i], sizeof(float)) == 0) continue;
    ++change.elements;
    change.rows.insert(static_cast<int64_t>(i) / view.columns());
    change.largest = std::max(change.largest, std::abs(static_cast<double>(wrong[i]) - right[i]) / scale);
  }
  return change;
}

int FirstOutput(const Call& call) {
  int i = 0;
  while (call.argument(i).access == Access::kRead || !call.view(i).present()) ++i;
  return i;
}

TEST(FaultInjectorTest, AnotherOrderChangesOneRowALittle) {
  int kernels = 0;
  for (const Kernel* kernel : AllKernels()) {
    if (!CanReorder(*kernel)) continue;
    ++kernels;
    int64_t changed = 0;
    for (const Problem& problem : kernel->problems()) {
      if (problem.timed) continue;
      ProblemMemory memory(*kernel, problem, {});
      const TensorView& output = memory.call().view(FirstOutput(memory.call()));
      samestep::Run(memory.call());
      const std::vector<float> right = Values(output);
      memory.Reset();
      BeginIteration(1);
      FaultInjector injector(Parsed("kernel=" + kernel->name + ",iteration=1,kind=chain-order"));
      samestep::Run(memory.call());
      const Change change = ChangeBetween(right, output);
      EXPECT_EQ(change.elements, injector.elements_changed());
      EXPECT_LE(change.rows.size(), 1u) << kernel->name << ": " << problem.label;
      EXPECT_LT(change.largest, 1e-3) << kernel->name << ": " << problem.label;
      changed += change.elements;
    }
    EXPECT_GT(changed, 0) << kernel->name;
  }
  EXPECT_GE(kernels, 12);
}

// A call to play with: one output, known values.
struct Rotation {
  Tensor x = Tensor::Empty({1, 4, 8}), cos = Tensor::Empty({4, 4}), sin = Tensor::Zeros({4, 4});
  Rotation() {
    for (int64_t i = 0; i < cos.elements(); ++i) cos.f32()[i] = 1;
  }
  // Leaves x as `value` everywhere, unless a fault strikes.
  std::vector<float> RunWith(float value) {
    for (int64_t i = 0; i < x.elements(); ++i) x.f32()[i] = value;
    Call call(*FindKernel("rope.forward"));
    call.Update(x.view()).Read(cos.view()).Read(sin.view()).Set("head_size", 8);
    Run(call);
    return Values(x.view());
  }
  int64_t Changed(float value) {
    int64_t changed = 0;
    for (const float y : RunWith(value)) changed += y != value;
    return changed;
  }
};

TEST(FaultInjectorTest, StrikesTheIterationModuleAndOccurrenceNamedAndNoOther) {
  Rotation rotation;
  const ScopedModule model("model");
  FaultInjector injector(
      Parsed("kernel=rope.forward,module=model.b,iteration=2,occurrence=1,kind=bit-flip,bit=0"));
  for (int iteration = 1; iteration <= 3; ++iteration) {
    BeginIteration(iteration);
    for (const char* name : {"a", "b"}) {
      const ScopedModule module(name);
      for (int occurrence = 0; occurrence < 3; ++occurrence) {
        const bool meant = iteration == 2 && *name == 'b' && occurrence == 1;
        EXPECT_EQ(rotation.Changed(1), meant ? 1 : 0) << iteration << name << occurrence;
      }
    }
  }
  EXPECT_TRUE(injector.struck());
}

TEST(FaultInjectorTest, AFlippedBitIsThatBit) {
  Rotation rotation;
  BeginIteration(1);
  FaultInjector injector(Parsed("kernel=rope.forward,iteration=1,kind=bit-flip,bit=31"));
  const std::vector<float> values = rotation.RunWith(3);
  EXPECT_EQ(values[16], -3);
  EXPECT_EQ(injector.elements_changed(), 1);
}

TEST(FaultInjectorTest, AStaleOutputIsThatOfTheIterationBefore) {
  Rotation rotation;
  FaultInjector injector(Parsed("kernel=rope.forward,iteration=3,kind=stale"));
  for (int iteration = 1; iteration <= 4; ++iteration) {
    BeginIteration(iteration);
    EXPECT_EQ(rotation.RunWith(static_cast<float>(iteration))[5], iteration == 3 ? 2 : iteration);
  }
}

TEST(FaultInjectorTest, JitterChangesOneElementSomewhere) {
  Rotation rotation;
  std::set<std::vector<float>> outcomes;
  for (int run = 0; run < 20; ++run) {
    BeginIteration(1);
    FaultInjector injector(Parsed("kernel=rope.forward,iteration=1,kind=jitter"));
    outcomes.insert(rotation.RunWith(1));
    EXPECT_EQ(injector.elements_changed(), 1);
  }
  EXPECT_GT(outcomes.size(), 1u);  // fails once in 32^19 times
}

TEST(FaultInjectorTest, MpiSumSaysThatOneProcessHasNoneToSumWith) {
  testing::internal::CaptureStderr();
  Tensor parts = Tensor::Zeros({2, 3}), sum = Tensor::Empty({3});
  {
    FaultInjector injector(Parsed("kernel=sum.tree,iteration=1,kind=mpi-sum"));
    BeginIteration(1);
    SumTree(parts.view(), sum.view());
    EXPECT_FALSE(injector.struck());
  }
  EXPECT_EQ(sum.f32()[2], 0);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot strike: kind=mpi-sum needs"));
}

TEST(FaultInjectorTest, SaysWhatItDoes) {
  testing::internal::CaptureStderr();
  Rotation rotation;
  {
    FaultInjector injector(Parsed("kernel=rope.forward,iteration=7,kind=bit-flip"));
    BeginIteration(7);
    rotation.RunWith(1);
  }
  {
    FaultInjector injector(Parsed("kernel=rope.forward,iteration=8,kind=bit-flip"));
    EXPECT_EQ(rotation.Changed(1), 0);
    EXPECT_FALSE(injector.struck());
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("PLANTED FAULT: kernel=rope.forward,iteration=7"));
  EXPECT_THAT(said, HasSubstr("struck at iteration 7"));
  EXPECT_THAT(said, HasSubstr("1 of 32 elements of x"));
  EXPECT_THAT(said, HasSubstr("never struck"));
}

}  // namespace
}  // namespace samestep
