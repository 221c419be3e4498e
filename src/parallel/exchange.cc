#include "parallel/exchange.h"

#include <array>
#include <cstring>
#include <vector>

#include "kernels/exact_sum/exact_sum.h"
#include "kernels/sum/sum.h"

namespace samestep {
namespace {

// Transfers begun by one call come in pairs that both sides begin in the same order, so one tag serves those
// that are waited for at once.
constexpr int kTokenTag = 1;
constexpr int kGatherTag = 2;

std::byte* At(const TensorView& view, int64_t elements) {
  return static_cast<std::byte*>(view.data) + elements * BitsOf(view.dtype) / 8;
}

size_t BytesOf(const TensorView& view, int64_t elements) {
  return static_cast<size_t>(elements * BitsOf(view.dtype) / 8);
}

// [b, t, H] as a slice of [b, t * n, H].
struct TokenSlices {
  int64_t samples, own, all;  // elements of a sample
  TokenSlices(const TensorView& mine, const TensorView& whole, int ranks)
      : samples(mine.shape[0]), own(samples == 0 ? 0 : mine.elements() / samples), all(own * ranks) {
    SAMESTEP_CHECK(mine.contiguous() && whole.contiguous());
    SAMESTEP_CHECK_EQ(whole.elements(), mine.elements() * ranks);
    SAMESTEP_CHECK_EQ(whole.shape[0], samples);
  }
};

void Copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace

void GatherTokens(Communicator& group, const TensorView& mine, const TensorView& all) {
  if (group.size() == 1) {
    SAMESTEP_CHECK(mine.data == all.data);
    return;
  }
  const TokenSlices s(mine, all, group.size());
  const size_t bytes = BytesOf(mine, s.own);
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < group.size(); ++peer) {
    for (int64_t b = 0; b < s.samples; ++b) {
      std::byte* place = At(all, b * s.all + peer * s.own);
      if (peer == group.rank()) {
        Copy(place, At(mine, b * s.own), bytes);
      } else {
        sends.push_back({peer, At(mine, b * s.own), bytes});
        receives.push_back({peer, place, bytes});
      }
    }
  }
  group.Start(sends, receives, kTokenTag).Wait();
}

TensorView PartsOf(const Tensor& memory, int n, const TensorView& dst) {
  Shape shape{n}, global{n}, offsets{0};
  for (int i = 0; i < dst.shape.rank(); ++i) {
    shape.Append(dst.shape[i]);
    global.Append(dst.global_shape[i]);
    offsets.Append(dst.offsets[i]);
  }
  SAMESTEP_CHECK_LE(shape.elements(), memory.elements());
  return ViewOf(memory.view().data, shape).Within(global, offsets);
}

void ReduceTokens(Communicator& group, const TensorView& partial, const Tensor& memory,
                  const TensorView& dst) {
  if (group.size() == 1) {
    SAMESTEP_CHECK(partial.data == dst.data);
    return;
  }
  const TokenSlices s(dst, partial, group.size());
  const TensorView parts = PartsOf(memory, group.size(), dst);
  const size_t bytes = BytesOf(dst, s.own);
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < group.size(); ++peer) {
    for (int64_t b = 0; b < s.samples; ++b) {
      std::byte* place = At(parts, (peer * s.samples + b) * s.own);
      if (peer == group.rank()) {
        Copy(place, At(partial, b * s.all + peer * s.own), bytes);
      } else {
        sends.push_back({peer, At(partial, b * s.all + peer * s.own), bytes});
        receives.push_back({peer, place, bytes});
      }
    }
  }
  group.Start(sends, receives, kTokenTag).Wait();
  SumTree(parts, dst);
}

Pending StartSlices(Communicator& group, const TensorView& local, const TensorView& parts, int tag) {
  SAMESTEP_CHECK(local.contiguous() && parts.contiguous());
  const int64_t rows = local.shape[0], width = rows == 0 ? 0 : local.elements() / rows;
  const Range own = PartOf(rows, group.size(), group.rank());
  const size_t own_bytes = BytesOf(local, own.count * width);
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < group.size(); ++peer) {
    const Range theirs = PartOf(rows, group.size(), peer);
    std::byte* place = At(parts, peer * own.count * width);
    if (peer == group.rank()) {
      Copy(place, At(local, own.first * width), own_bytes);
    } else {
      sends.push_back({peer, At(local, theirs.first * width), BytesOf(local, theirs.count * width)});
      receives.push_back({peer, place, own_bytes});
    }
  }
  return group.Start(sends, receives, tag);
}

Pending StartGatherRows(Communicator& group, const TensorView& local, int tag) {
  SAMESTEP_CHECK(local.contiguous());
  const int64_t rows = local.shape[0], width = rows == 0 ? 0 : local.elements() / rows;
  const Range own = PartOf(rows, group.size(), group.rank());
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < group.size(); ++peer) {
    if (peer == group.rank()) continue;
    const Range theirs = PartOf(rows, group.size(), peer);
    sends.push_back({peer, At(local, own.first * width), BytesOf(local, own.count * width)});
    receives.push_back({peer, At(local, theirs.first * width), BytesOf(local, theirs.count * width)});
  }
  return group.Start(sends, receives, tag);
}

void GatherAll(Communicator& group, const TensorView& mine, const TensorView& all) {
  const size_t bytes = BytesOf(mine, mine.elements());
  SAMESTEP_CHECK(mine.contiguous() && all.contiguous());
  SAMESTEP_CHECK_EQ(all.elements(), mine.elements() * group.size());
  std::vector<Transfer> sends, receives;
  for (int peer = 0; peer < group.size(); ++peer) {
    std::byte* place = At(all, peer * mine.elements());
    if (peer == group.rank()) {
      Copy(place, At(mine, 0), bytes);
    } else {
      sends.push_back({peer, mine.data, bytes});
      receives.push_back({peer, place, bytes});
    }
  }
  group.Start(sends, receives, kGatherTag).Wait();
}

void SumExact(Communicator& group, const TensorView& state) {
  if (group.size() == 1) return;
  // Each 64-bit word as two 32-bit limbs, so that sums of up to 2^32 ranks cannot overflow; the carries are
  // made afterwards, modulo the whole number. The last word counts kinds of terms that are not finite.
  constexpr size_t kWords = kExactSumWords - 1;
  std::array<uint64_t, 2 * kWords + 3> limbs{};
  uint64_t* words = reinterpret_cast<uint64_t*>(state.i64());
  for (size_t i = 0; i < kWords; ++i) {
    limbs[2 * i] = words[i] & 0xFFFFFFFFu;
    limbs[2 * i + 1] = words[i] >> 32;
  }
  for (size_t kind = 0; kind < 3; ++kind) limbs[2 * kWords + kind] = words[kWords] >> kind & 1;
  group.SumIntegers(limbs);
  uint64_t carry = 0;
  for (size_t i = 0; i < kWords; ++i) {
    const uint64_t low = limbs[2 * i] + carry;
    const uint64_t high = limbs[2 * i + 1] + (low >> 32);
    words[i] = (low & 0xFFFFFFFFu) | high << 32;
    carry = high >> 32;
  }
  words[kWords] = 0;
  for (size_t kind = 0; kind < 3; ++kind) {
    if (limbs[2 * kWords + kind] > 0) words[kWords] |= uint64_t{1} << kind;
  }
  if (words[kWords] != 0) std::memset(words, 0, kWords * sizeof(uint64_t));  // as ExactSum::State has it
}

}  // namespace samestep
