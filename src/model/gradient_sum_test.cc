#include "model/gradient_sum.h"

#include <gtest/gtest.h>

#include "kernels/linear/linear.h"
#include "numerics/sums.h"

namespace samestep {
namespace {

// Lane values 2^-24 apart from 1, so that every other order of additions rounds otherwise somewhere.
float LaneValue(int lane, int64_t element) {
  return 1.0f + static_cast<float>((lane * 7 + element * 3) % 11) * 0x1p-22f +
         static_cast<float>(lane % 3) * 0.3f;
}

TEST(GradientSum, DataLanesCombineByTheBalancedTree) {
  constexpr int64_t kElements = 50;
  for (int lanes = 1; lanes <= 17; ++lanes) {
    GradientSum sum(Shard::Whole({kElements}), {}, {0, lanes, lanes});
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second step uses the first one's buffers
      sum.Begin();
      for (int lane = 0; lane < lanes; ++lane) {
        float* out = sum.Accumulator().f32();
        for (int64_t e = 0; e < kElements; ++e) out[e] = LaneValue(lane, e);
        sum.FinishLane();
      }
      const float* total = sum.Finish().f32();
      for (int64_t e = 0; e < kElements; ++e) {
        std::vector<float> parts;
        for (int lane = 0; lane < lanes; ++lane) parts.push_back(LaneValue(lane, e));
        EXPECT_EQ(total[e], Tree(parts)) << lanes << " lanes, element " << e;
      }
    }
  }
}

// What the test above would not see if the values were too kind.
TEST(GradientSum, ALeftToRightSumIsAnotherOne) {
  int differing = 0;
  for (int64_t e = 0; e < 50; ++e) {
    std::vector<float> parts;
    float straight = 0;
    for (int lane = 0; lane < 17; ++lane) {
      parts.push_back(LaneValue(lane, e));
      straight += parts.back();
    }
    differing += straight != Tree(parts);
  }
  EXPECT_GT(differing, 10);
}

}  // namespace
}  // namespace samestep
