// content_digest.h: XXH3-128 of the contents of a data set, so that a run notices other data.
//
//   ContentHasher hasher;
//   hasher.Add(bytes);
//   ContentDigest digest = hasher.Finish();   // digest.Hex(): 32 digits, high half first
//
// Determinism: a function of the bytes that were added, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace samestep {

struct ContentDigest {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const ContentDigest&) const = default;
  std::string Hex() const;
};

class ContentHasher {
 public:
  ContentHasher();
  ContentHasher(ContentHasher&&) noexcept;
  ContentHasher& operator=(ContentHasher&&) noexcept;
  ~ContentHasher();
  void Add(std::span<const std::byte> bytes);
  void Add(uint64_t number);  // as eight little-endian bytes
  ContentDigest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace samestep
