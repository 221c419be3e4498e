// elementary_oracle.h: the correctly rounded elementary functions by MPFR, for tests.
//
//   EXPECT_EQ(Bits(Exp(x)), Bits(MpfrRounded(mpfr_exp, x)));
//
// Determinism: MPFR rounds exactly; nothing here is used by the product.
#pragma once

#include <mpfr.h>

#include <bit>
#include <cstdint>

namespace samestep {

using MpfrFunction = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

inline uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }
inline float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// function(x) rounded once to binary32, subnormals included. The exponent range is MPFR's, of this thread.
inline float MpfrRounded(MpfrFunction function, float x) {
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(-148);
  mpfr_set_emax(128);
  mpfr_t argument, value;
  mpfr_init2(argument, 24);
  mpfr_init2(value, 24);
  mpfr_set_flt(argument, x, MPFR_RNDN);
  const int ternary = function(value, argument, MPFR_RNDN);
  mpfr_subnormalize(value, ternary, MPFR_RNDN);
  const float result = mpfr_get_flt(value, MPFR_RNDN);
  mpfr_clear(argument);
  mpfr_clear(value);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return result;
}

}  // namespace samestep
