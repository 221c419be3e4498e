#include "fingerprint/digest.h"

#include <gtest/gtest.h>
#include <xxhash.h>

namespace samestep {
namespace {

TEST(Digest, CanonicalForm) {
  EXPECT_EQ(Digest{}.hex(), std::string(32, '0'));
  // The published value of XXH3-128 of nothing.
  EXPECT_EQ(DigestOf("").hex(), "99aa06d3014798d86001c324468d497f");
  const Digest digest = DigestOf("samestep");
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits("samestep", 8));
  EXPECT_EQ(digest.bytes(), std::string(reinterpret_cast<const char*>(canonical.digest), 16));
  EXPECT_EQ(Digest::FromBytes(digest.bytes()), digest);
  EXPECT_EQ(*Digest::FromHex(digest.hex()), digest);
}

TEST(Digest, PiecesAreTheWhole) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 7);
  DigestBuilder builder;
  for (size_t at = 0; at < bytes.size(); at += 37) builder.Add(std::string_view(bytes).substr(at, 37));
  EXPECT_EQ(builder.Finish(), DigestOf(bytes));
  builder.Reset();
  EXPECT_EQ(builder.Finish(), DigestOf(""));
}

TEST(Digest, ChainIsTheDigestOfLinkAndRecord) {
  RecordWriter record;
  record.U64(1).U64(8).F64(2.5).F64(1.0).Add(Fingerprint{3, 4});
  EXPECT_EQ(record.bytes().size(), 48u);
  EXPECT_EQ(record.bytes()[0], 1);
  EXPECT_EQ(record.bytes()[16 + 7], 0x40);  // little-endian: the exponent comes last
  const Digest first = ChainDigest(Digest(), record.bytes());
  EXPECT_EQ(first, DigestOf(std::string(16, '\0') + record.bytes()));
  EXPECT_EQ(ChainDigest(first, record.bytes()), DigestOf(first.bytes() + record.bytes()));
  EXPECT_NE(ChainDigest(first, record.bytes()), first);
}

}  // namespace
}  // namespace samestep
