#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace samestep {
namespace {

struct Entry {
  int bits;
  std::string_view name;
};
constexpr std::array<Entry, kDTypeCount> kEntries = {{{32, "f32"},
                                                      {64, "f64"},
                                                      {8, "i8"},
                                                      {8, "u8"},
                                                      {16, "i16"},
                                                      {16, "u16"},
                                                      {32, "i32"},
                                                      {32, "u32"},
                                                      {64, "i64"},
                                                      {64, "u64"},
                                                      {8, "bool"},
                                                      {16, "f16"},
                                                      {16, "bf16"},
                                                      {8, "f8e4m3"},
                                                      {8, "f8e5m2"},
                                                      {8, "f8e8m0"},
                                                      {4, "f4"},
                                                      {64, "c64"},
                                                      {128, "c128"}}};

const Entry& EntryOf(DType dtype) {
  SAMESTEP_CHECK_LT(static_cast<int>(dtype), kDTypeCount);
  return kEntries[static_cast<size_t>(dtype)];
}

}  // namespace

int BitsOf(DType dtype) { return EntryOf(dtype).bits; }
std::string_view NameOf(DType dtype) { return EntryOf(dtype).name; }

std::optional<DType> DTypeNamed(std::string_view name) {
  for (size_t i = 0; i < kEntries.size(); ++i) {
    if (kEntries[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace samestep
