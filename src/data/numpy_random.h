// numpy_random.h: the part of NumPy's legacy generator that Megatron's sample order is made of.
//
//   NumpyRandomState random(1234);                 // numpy.random.RandomState(1234)
//   random.Shuffle(std::span<int32_t>(indices));   // .shuffle(indices)
//
// NumPy has frozen this stream: the Mersenne twister seeded by Knuth's recurrence, which std::mt19937 is
// too, and a shuffle from the back whose draws are masked and redrawn until they are in range.
//
// Determinism: a function of the seed and of the lengths shuffled so far, the same on every machine.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace samestep {

class NumpyRandomState {
 public:
  explicit NumpyRandomState(uint32_t seed) : engine_(seed) {}

  // A number in [0, max].
  uint64_t Interval(uint64_t max);

  template <typename T>
  void Shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[Interval(i)]);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace samestep
