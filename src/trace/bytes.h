// bytes.h: numbers and texts as bytes, and back from bytes that nobody vouches for.
//
//   ByteWriter out;  out.Varint(300).Signed(-2).Text("q_proj");
//   ByteReader in(bytes);
//   uint64_t n = in.Varint();  ...  if (!in.ok()) return InvalidError(...);
//
// Varints hold seven bits a byte, low ones first; signed numbers are zigzagged. A reader past its end, or at
// a number that is too long, turns not ok and gives zeros from then on.
//
// Determinism: one form a value.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace samestep {

class ByteWriter {
 public:
  ByteWriter& Varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  ByteWriter& Signed(int64_t value) {
    return Varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  ByteWriter& Fixed(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  ByteWriter& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  ByteWriter& Text(std::string_view text) { return Varint(text.size()).Raw(text); }
  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  void Clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = Fixed(1);
      if (!ok_ || (shift == 63 && byte > 1)) break;
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    return Fail();
  }
  int64_t Signed() {
    const uint64_t value = Varint();
    return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1)));
  }
  // A varint of at most `limit`.
  uint64_t Count(uint64_t limit) {
    const uint64_t value = Varint();
    return value <= limit ? value : Fail();
  }
  uint64_t Fixed(int size) {
    const std::string_view raw = Raw(static_cast<uint64_t>(size));
    uint64_t value = 0;
    for (size_t i = 0; i < raw.size(); ++i) value |= uint64_t{static_cast<unsigned char>(raw[i])} << 8 * i;
    return value;
  }
  std::string_view Raw(uint64_t size) {
    if (!ok_ || size > bytes_.size() - at_) {
      Fail();
      return {};
    }
    const std::string_view raw = bytes_.substr(at_, size);
    at_ += size;
    return raw;
  }
  std::string_view Text(uint64_t limit) { return Raw(Count(limit)); }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && at_ == bytes_.size(); }
  uint64_t remaining() const { return bytes_.size() - at_; }
  uint64_t Fail() {
    ok_ = false;
    return 0;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace samestep
