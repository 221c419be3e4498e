// dtype.h: the element types that tensors, traces and files of Samestep know.
//
//   DType::kF32; BitsOf(DType::kF4) == 4; NameOf(DType::kBF16) == "bf16"
//
// Determinism: the numbers are part of the trace format (docs/formats/trace.md); never renumber.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace samestep {

enum class DType : uint8_t {
  kF32 = 0,
  kF64 = 1,
  kI8 = 2,
  kU8 = 3,
  kI16 = 4,
  kU16 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
  kBool = 10,
  kF16 = 11,
  kBF16 = 12,
  kF8E4M3 = 13,
  kF8E5M2 = 14,
  kF8E8M0 = 15,
  kF4 = 16,
  kC64 = 17,
  kC128 = 18,
};
inline constexpr int kDTypeCount = 19;

int BitsOf(DType dtype);
std::string_view NameOf(DType dtype);  // "f32", "bf16", …
std::optional<DType> DTypeNamed(std::string_view name);

}  // namespace samestep
