#include "optimizer/schedule.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>

namespace samestep {
namespace {

Decimal Of(const char* text) { return Decimal::Parse(text).value(); }

LearningRateSchedule Schedule(DecayKind kind, int64_t warmup, int64_t decay, int64_t steps) {
  return {.kind = kind,
          .lr = Of("3e-4"),
          .min_lr = Of("1.7e-5"),
          .warmup_steps = warmup,
          .decay_steps = decay,
          .steps = steps};
}

// from + (to - from) * fraction in 400 bits, where fraction is n/d, or (1 - cos(pi n/d)) / 2.
float Oracle(const char* from, const char* to, int64_t n, int64_t d, bool cosine) {
  mpfr_t a, b, f;
  mpfr_inits2(400, a, b, f, static_cast<mpfr_ptr>(nullptr));
  mpfr_set_str(a, from, 10, MPFR_RNDN);
  mpfr_set_str(b, to, 10, MPFR_RNDN);
  if (cosine) {
    mpfr_const_pi(f, MPFR_RNDN);
    mpfr_mul_si(f, f, n, MPFR_RNDN);
    mpfr_div_si(f, f, d, MPFR_RNDN);
    mpfr_cos(f, f, MPFR_RNDN);
    mpfr_si_sub(f, 1, f, MPFR_RNDN);
    mpfr_div_si(f, f, 2, MPFR_RNDN);
  } else {
    mpfr_set_si(f, n, MPFR_RNDN);
    mpfr_div_si(f, f, d, MPFR_RNDN);
  }
  mpfr_sub(b, b, a, MPFR_RNDN);
  mpfr_mul(b, b, f, MPFR_RNDN);
  mpfr_add(a, a, b, MPFR_RNDN);
  const float value = mpfr_get_flt(a, MPFR_RNDN);
  mpfr_clears(a, b, f, static_cast<mpfr_ptr>(nullptr));
  return value;
}

void ExpectBits(float value, float expected, int64_t step) {
  EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << "step " << step;
}

TEST(ScheduleTest, Cosine) {
  const LearningRateSchedule schedule = Schedule(DecayKind::kCosine, 37, 700, 800);
  for (int64_t t = 1; t <= 37; ++t)
    ExpectBits(LearningRate(schedule, t), Oracle("0", "3e-4", t, 37, false), t);
  for (int64_t t = 37; t <= 737; ++t)
    ExpectBits(LearningRate(schedule, t), Oracle("3e-4", "1.7e-5", t - 37, 700, true), t);
  for (int64_t t = 737; t <= 900; ++t) ExpectBits(LearningRate(schedule, t), 1.7e-5f, t);
  EXPECT_EQ(LearningRate(schedule, 37), 3e-4f);
}

TEST(ScheduleTest, WarmupStableDecay) {
  const LearningRateSchedule schedule = Schedule(DecayKind::kWarmupStableDecay, 10, 53, 300);
  for (int64_t t = 1; t <= 10; ++t)
    ExpectBits(LearningRate(schedule, t), Oracle("0", "3e-4", t, 10, false), t);
  for (int64_t t = 10; t <= 247; ++t) ExpectBits(LearningRate(schedule, t), 3e-4f, t);
  for (int64_t t = 247; t <= 300; ++t)
    ExpectBits(LearningRate(schedule, t), Oracle("3e-4", "1.7e-5", t - 247, 53, false), t);
  EXPECT_EQ(LearningRate(schedule, 300), 1.7e-5f);
  EXPECT_EQ(LearningRate(schedule, 301), 1.7e-5f);
}

TEST(ScheduleTest, Constant) {
  const LearningRateSchedule schedule = Schedule(DecayKind::kConstant, 4, 0, 10);
  ExpectBits(LearningRate(schedule, 1), 0.75e-4f, 1);
  for (int64_t t = 4; t <= 10; ++t) ExpectBits(LearningRate(schedule, t), 3e-4f, t);
}

TEST(ScheduleTest, DegenerateLengths) {
  EXPECT_EQ(LearningRate(Schedule(DecayKind::kCosine, 0, 0, 5), 1), 1.7e-5f);  // the decay is over at once
  EXPECT_EQ(LearningRate(Schedule(DecayKind::kCosine, 5, 0, 5), 5), 3e-4f);    // warm-up until the end
  EXPECT_EQ(LearningRate(Schedule(DecayKind::kConstant, 0, 0, 5), 1), 3e-4f);
  EXPECT_EQ(LearningRate(Schedule(DecayKind::kWarmupStableDecay, 0, 0, 5), 5), 3e-4f);
  EXPECT_EQ(LearningRate(Schedule(DecayKind::kWarmupStableDecay, 0, 0, 5), 6), 1.7e-5f);
}

}  // namespace
}  // namespace samestep
