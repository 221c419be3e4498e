// shape.h: the extents of a tensor, up to six dimensions, row-major.
//
//   Shape s{4, 24, 32};  s.rank() == 3;  s[2] == 32;  s.elements() == 3072
//
// Determinism: plain integers.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"

namespace samestep {

class Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) {
    for (int64_t e : extents) Append(e);
  }
  void Append(int64_t extent) {
    SAMESTEP_CHECK_LT(rank_, kMaxRank);
    extents_[static_cast<size_t>(rank_++)] = extent;
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return extents_[Index(i)]; }
  int64_t& operator[](int i) { return extents_[Index(i)]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extents_[static_cast<size_t>(i)];
    return n;
  }
  int64_t back() const { return (*this)[rank_ - 1]; }
  bool operator==(const Shape& other) const = default;
  std::string ToString() const;  // "[4, 24, 32]"

 private:
  size_t Index(int i) const {
    SAMESTEP_CHECK(i >= 0 && i < rank_);
    return static_cast<size_t>(i);
  }
  int rank_ = 0;
  std::array<int64_t, kMaxRank> extents_{};
};

}  // namespace samestep
