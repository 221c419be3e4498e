// digest.h: 128-bit XXH3 digests of records: roll-ups of traces and the trajectory digest.
//
//   DigestBuilder builder;
//   builder.Add(bytes);
//   Digest rollup = builder.Finish();
//   RecordWriter record;                        // little-endian, packed
//   record.U64(step).U64(samples).F64(loss).F64(norm).Add(fingerprint);
//   digest = ChainDigest(digest, record.bytes());
//
// Determinism: a digest depends on the bytes in their order and on nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "fingerprint/fingerprint.h"

struct XXH3_state_s;

namespace samestep {

struct Digest {
  uint64_t high = 0, low = 0;
  bool operator==(const Digest&) const = default;
  std::string hex() const;    // 32 digits, high half first
  std::string bytes() const;  // canonical: 16 bytes, high half first, big-endian
  static Digest FromBytes(std::string_view canonical);
  static Result<Digest> FromHex(std::string_view text);
};

Digest DigestOf(std::string_view bytes);

// d_t = XXH3-128(canonical d_(t-1), record_t); the chain begins at Digest() (16 zero bytes).
Digest ChainDigest(const Digest& previous, std::string_view record);

// The digest of bytes that come in pieces.
class DigestBuilder {
 public:
  DigestBuilder();
  void Add(std::string_view bytes);
  Digest Finish() const;
  void Reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

class RecordWriter {
 public:
  RecordWriter& U8(uint8_t value) { return Little(value, 1); }
  RecordWriter& U32(uint32_t value) { return Little(value, 4); }
  RecordWriter& U64(uint64_t value) { return Little(value, 8); }
  RecordWriter& F64(double value);
  RecordWriter& Add(const Fingerprint& f) { return U64(f.a).U64(f.b); }
  RecordWriter& Text(std::string_view text);  // length as u32, then the bytes
  const std::string& bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  RecordWriter& Little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  std::string bytes_;
};

}  // namespace samestep
