#include "data/content_digest.h"

#include <fmt/format.h>

// The state is then a plain struct, in memory of its own.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace samestep {

struct alignas(64) ContentHasher::State {
  XXH3_state_t xxh;
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
ContentHasher::ContentHasher(ContentHasher&&) noexcept = default;
ContentHasher& ContentHasher::operator=(ContentHasher&&) noexcept = default;
ContentHasher::~ContentHasher() = default;

void ContentHasher::Add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

void ContentHasher::Add(uint64_t number) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  Add(bytes);
}

ContentDigest ContentHasher::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

std::string ContentDigest::Hex() const { return fmt::format("{:016x}{:016x}", high, low); }

}  // namespace samestep
