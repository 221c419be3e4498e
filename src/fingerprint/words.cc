#include "fingerprint/words.h"

#include "fingerprint/fingerprint.h"
#include "numerics/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fingerprint/words.cc"
#include <bit>
#include <cstring>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"

static_assert(std::endian::native == std::endian::little, "fingerprints are made on little-endian machines");

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

BlockSums PlainSums(const uint8_t* bytes, const uint32_t* pa, const uint32_t* pb, uint64_t begin,
                    uint64_t end) {
  BlockSums sums;
  for (uint64_t i = begin; i < end; ++i) {
    uint32_t word;
    std::memcpy(&word, bytes + 4 * i, 4);
    sums.a += uint64_t{word} * pa[i];
    sums.b += uint64_t{word} * pb[i];
  }
  return sums;
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

BlockSums SumWordsOnTarget(const void* words, const uint32_t* pa, const uint32_t* pb, uint64_t count) {
  return PlainSums(static_cast<const uint8_t*>(words), pa, pb, 0, count);
}

#else

template <class D, class V>
HWY_INLINE uint64_t SumOf(D d, V lanes) {
  HWY_ALIGN uint64_t values[hn::MaxLanes(d)];
  hn::Store(lanes, d, values);
  uint64_t sum = 0;
  for (uint64_t value : values) sum += value;
  return sum;
}

BlockSums SumWordsOnTarget(const void* words, const uint32_t* pa, const uint32_t* pb, uint64_t count) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::ScalableTag<uint64_t> d64;
  const auto* bytes = static_cast<const uint8_t*>(words);
  const uint64_t lanes = hn::Lanes(d32);
  auto even_a = hn::Zero(d64), odd_a = even_a, even_b = even_a, odd_b = even_a;
  uint64_t i = 0;
  const auto odd = [&](auto v) { return hn::BitCast(d32, hn::ShiftRight<32>(hn::BitCast(d64, v))); };
  for (; i + lanes <= count; i += lanes) {
    const hn::ScalableTag<uint8_t> d8;
    const auto word = hn::BitCast(d32, hn::LoadU(d8, bytes + 4 * i));
    const auto key_a = hn::LoadU(d32, pa + i);
    const auto key_b = hn::LoadU(d32, pb + i);
    const auto odd_word = odd(word);
    even_a = hn::Add(even_a, hn::MulEven(word, key_a));
    even_b = hn::Add(even_b, hn::MulEven(word, key_b));
    odd_a = hn::Add(odd_a, hn::MulEven(odd_word, odd(key_a)));
    odd_b = hn::Add(odd_b, hn::MulEven(odd_word, odd(key_b)));
  }
  BlockSums sums = PlainSums(bytes, pa, pb, i, count);
  if (i != 0) {
    sums.a += SumOf(d64, hn::Add(even_a, odd_a));
    sums.b += SumOf(d64, hn::Add(even_b, odd_b));
  }
  return sums;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {

HWY_EXPORT(SumWordsOnTarget);

BlockSums SumWords(const void* words, uint64_t first, uint64_t count) {
  const FingerprintKeys& keys = Keys();
  return HWY_DYNAMIC_DISPATCH(SumWordsOnTarget)(words, keys.pa.data() + first, keys.pb.data() + first, count);
}

}  // namespace samestep
#endif
