#include "base/parallel_for.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace samestep {
namespace {

TEST(ParallelFor, RunsEachTaskOnceUnderEverySchedule) {
  for (int threads : {1, 2, 3, 8}) {
    for (uint64_t seed : {0u, 7u}) {
      SetSchedule({threads, seed});
      std::vector<std::atomic<int>> runs(1000);
      ParallelFor(1000, [&](int64_t i) { runs[i]++; });
      for (auto& r : runs) EXPECT_EQ(r.load(), 1);
    }
  }
  SetSchedule({});
}

TEST(ParallelFor, HostileSchedulePermutesTasks) {
  SetSchedule({1, 5});
  std::vector<int64_t> order;
  ParallelFor(100, [&](int64_t i) { order.push_back(i); });
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  SetSchedule({});
}

TEST(ParallelFor, NestedCallsRunInTheTask) {
  SetSchedule({2, 0});
  std::atomic<int> sum{0};
  ParallelFor(4, [&](int64_t) { ParallelFor(5, [&](int64_t) { sum++; }); });
  EXPECT_EQ(sum.load(), 20);
}

#if defined(__x86_64__)
TEST(ParallelForDeathTest, FlushToZeroStopsTheProgram) {
  EXPECT_DEATH(
      {
        _mm_setcsr(_mm_getcsr() | 0x8000);
        CheckFloatingPointMode();
      },
      "does not hold");
}
#endif

}  // namespace
}  // namespace samestep
