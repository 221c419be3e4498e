// test_tensor.h: small tensors for tests of kernels.
//
//   Tensor x = Normals({3, 20}, /*seed=*/1);
//   EXPECT_TRUE(SameBits(whole.view(), parts.view()));
//
// Determinism: contents are a function of the shape and the seed.
#pragma once

#include <cstring>
#include <vector>

#include "fingerprint/fingerprint.h"
#include "tensor/tensor.h"

namespace samestep {

// About N(0, 1) * scale.
inline Tensor Normals(const Shape& shape, uint64_t seed, double scale = 1) {
  Tensor tensor = Tensor::Empty(shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    double sum = -6;
    for (uint64_t k = 0; k < 12; ++k) {
      const uint64_t r = SplitMix((seed << 40) + static_cast<uint64_t>(i) * 12 + k);
      sum += static_cast<double>(r >> 11) * 0x1p-53;
    }
    tensor.f32()[i] = static_cast<float>(sum * scale);
  }
  return tensor;
}

inline std::vector<double> Doubles(const Tensor& tensor) {
  return std::vector<double>(tensor.f32(), tensor.f32() + tensor.elements());
}

// Of contiguous views.
inline bool SameBits(const TensorView& a, const TensorView& b) {
  SAMESTEP_CHECK(a.contiguous() && b.contiguous() && a.dtype == b.dtype);
  const auto bytes = static_cast<size_t>(a.elements() * BitsOf(a.dtype) / 8);
  return a.elements() == b.elements() && std::memcmp(a.data, b.data, bytes) == 0;
}

}  // namespace samestep
