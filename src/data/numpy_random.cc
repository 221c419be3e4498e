#include "data/numpy_random.h"

#include <bit>

namespace samestep {

uint64_t NumpyRandomState::Interval(uint64_t max) {
  if (max == 0) return 0;
  const uint64_t mask = ~uint64_t{0} >> std::countl_zero(max);
  uint64_t value;
  do {
    if (max > 0xFFFFFFFFu) {
      const uint64_t high = engine_();
      value = (high << 32 | engine_()) & mask;
    } else {
      value = engine_() & mask;
    }
  } while (value > max);
  return value;
}

}  // namespace samestep
