// How long a comparison of long traces takes.
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>

#include "locate/compare.h"
#include "locate/describe.h"
#include "locate/layouts_test.h"
#include "trace/toy_test.h"

namespace samestep {
namespace {

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Scale, EightHundredIterationsInTwoSeconds) {
  toy::Folder a, b, late;
  toy::Program program;
  program.layers = 100;  // about 300 calls an iteration
  program.last = 800;
  const auto record = [&](const toy::Folder& folder) {
    toy::Environment environment({{"SAMESTEP_TRACE", folder.path()}});
    program.Run();
  };
  record(a);
  record(b);
  {
    toy::BitFlip fault(790, "layers.57");
    record(late);
  }
  for (const auto verify : {CompareOptions::Verify::kNo, CompareOptions::Verify::kIfSmall}) {
    CompareOptions options;
    options.verify = verify;
    for (const auto* other : {&b, &late}) {
      Result<Comparison> comparison = UsageError("not run");
      const double seconds = SecondsOf([&] { comparison = CompareTraces(a.path(), other->path(), options); });
      ASSERT_TRUE(comparison.ok());
      EXPECT_EQ(comparison->ExitCode(), other == &b ? 0 : 1);
      EXPECT_LT(seconds, 2);
      fmt::print("{:.3f} s, {} of {} bytes\n", seconds, comparison->bytes_read, comparison->bytes);
      if (verify == CompareOptions::Verify::kNo) {
        EXPECT_LT(comparison->bytes_read * 10, comparison->bytes);
      }
      if (other == &late) {
        EXPECT_EQ(comparison->ranks[0].difference.findings[0].site.module, "layers.57");
      }
    }
  }
}

TEST(Scale, EightRanksOfTwoThousandCallsInASecond) {
  toy::Folder one, eight;
  const toy::Cut cut{.data = 2, .tensor = 2, .pipeline = 2, .micro_batch = 1};
  toy::WriteTraces(one, {.micro_batch = 1}, {}, "all", 90);
  toy::WriteTraces(eight, cut, {}, "all", 90);
  EXPECT_GT(toy::LayoutProgram(cut, {}, 1, 90).events(0), 2000u);
  Result<Comparison> comparison = UsageError("not run");
  // Of the processor, since the machine may be busy.
  const std::clock_t begin = std::clock();
  comparison = CompareTraces(one.path(), eight.path(), {});
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(comparison.ok());
  EXPECT_EQ(comparison->ExitCode(), 0) << DescribeText(*comparison);
  EXPECT_LT(seconds, 2);  // of two iterations
  fmt::print("{:.3f} s\n{}\n", seconds, DescribeText(*comparison));
}

}  // namespace
}  // namespace samestep
