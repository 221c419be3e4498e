#include "fingerprint/digest.h"

#include <xxhash.h>

#include <bit>
#include <charconv>

namespace samestep {
namespace {

Digest FromXxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }

}  // namespace

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

std::string Digest::bytes() const {
  std::string out;
  for (uint64_t half : {high, low}) {
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(half >> shift & 0xFF);
  }
  return out;
}

Digest Digest::FromBytes(std::string_view canonical) {
  SAMESTEP_CHECK_EQ(canonical.size(), size_t{16});
  Digest digest;
  for (size_t i = 0; i < 16; ++i) {
    uint64_t& half = i < 8 ? digest.high : digest.low;
    half = half << 8 | static_cast<unsigned char>(canonical[i]);
  }
  return digest;
}

Result<Digest> Digest::FromHex(std::string_view text) {
  SAMESTEP_ASSIGN_OR_RETURN(const Fingerprint halves, Fingerprint::FromHex(text));
  return Digest{halves.a, halves.b};
}

Digest DigestOf(std::string_view bytes) { return FromXxh(XXH3_128bits(bytes.data(), bytes.size())); }

Digest ChainDigest(const Digest& previous, std::string_view record) {
  return DigestOf(previous.bytes().append(record));
}

DigestBuilder::DigestBuilder() : state_(XXH3_createState()) {
  SAMESTEP_CHECK(state_ != nullptr);
  Reset();
}

void DigestBuilder::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }
void DigestBuilder::Reset() { XXH3_128bits_reset(state_.get()); }
void DigestBuilder::Add(std::string_view bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}
Digest DigestBuilder::Finish() const { return FromXxh(XXH3_128bits_digest(state_.get())); }

RecordWriter& RecordWriter::F64(double value) { return U64(std::bit_cast<uint64_t>(value)); }

RecordWriter& RecordWriter::Text(std::string_view text) {
  U32(static_cast<uint32_t>(text.size()));
  bytes_ += text;
  return *this;
}

}  // namespace samestep
