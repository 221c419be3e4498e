#include "locate/elements.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace samestep {
namespace {

bool IsFloat(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF4:
      return true;
    default:
      return false;
  }
}

uint64_t BitsAt(const CapturedTensor& tensor, int64_t index, int bits) {
  const int64_t at = index * bits;
  uint64_t value = 0;
  std::memcpy(&value, tensor.bytes.data() + at / 8, static_cast<size_t>(std::clamp(bits / 8, 1, 8)));
  return bits == 4 ? value >> (at % 8) & 15 : value;
}

// Representable values in ascending order have ascending numbers.
int64_t Ordinal(uint64_t value, int bits) {
  const uint64_t sign = uint64_t{1} << (bits - 1);
  const auto magnitude = static_cast<int64_t>(value & (sign - 1));
  return (value & sign) != 0 ? -1 - magnitude : magnitude;
}

uint64_t Distance(uint64_t a, uint64_t b, DType dtype, int bits) {
  if (!IsFloat(dtype)) return a > b ? a - b : b - a;
  const int64_t x = Ordinal(a, bits), y = Ordinal(b, bits);
  return x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
               : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
}

std::string TextOf(uint64_t value, DType dtype, int bits) {
  const std::string hex = fmt::format("0x{:0{}x}", value, (bits + 3) / 4);
  if (dtype == DType::kF32)
    return fmt::format("{} ({})", hex, std::bit_cast<float>(static_cast<uint32_t>(value)));
  if (dtype == DType::kF64) return fmt::format("{} ({})", hex, std::bit_cast<double>(value));
  if (dtype == DType::kBF16) {
    return fmt::format("{} ({})", hex, std::bit_cast<float>(static_cast<uint32_t>(value) << 16));
  }
  if (dtype == DType::kI32) return fmt::format("{} ({})", hex, static_cast<int32_t>(value));
  if (dtype == DType::kI64) return fmt::format("{} ({})", hex, static_cast<int64_t>(value));
  return hex;
}

}  // namespace

ElementDifference CompareElements(const CapturedTensor& a, const CapturedTensor& b) {
  ElementDifference d;
  const DType dtype = a.site.dtype;
  // A complex number of two doubles is compared as its two parts.
  const int bits = std::min(BitsOf(dtype), 64);
  const int64_t parts = BitsOf(dtype) / bits;
  d.elements = a.site.shape.elements();
  for (int64_t i = 0; i < d.elements * parts; ++i) {
    const uint64_t x = BitsAt(a, i, bits), y = BitsAt(b, i, bits);
    if (x == y) continue;
    const uint64_t ulps = Distance(x, y, dtype, bits);
    if (d.differing == 0) {
      int64_t rest = i / parts;
      for (int k = a.site.shape.rank() - 1; k >= 0; --k) {
        d.first.insert(d.first.begin(), rest % a.site.shape[k] + a.site.offsets[k]);
        rest /= a.site.shape[k];
      }
      d.text_a = TextOf(x, dtype, bits);
      d.text_b = TextOf(y, dtype, bits);
      d.ulps = ulps;
    }
    ++d.differing;
    d.largest_ulps = std::max(d.largest_ulps, ulps);
  }
  return d;
}

}  // namespace samestep
