#include "fingerprint/fingerprint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/parallel_for.h"
#include "fingerprint/words.h"

namespace samestep {
namespace {

constexpr int64_t kTaskBits = int64_t{32} << 17;  // 512 KiB a task

// Sums up pieces of the logical string of bits that come in ascending order; the factors of a block are
// applied once for all the pieces that lie in it.
class Accumulator {
 public:
  // `bits` bits from bit `at` of the string of bits at `data` are bits [global, global + bits).
  void Add(const uint8_t* data, uint64_t at, uint64_t global, uint64_t bits) {
    while (bits > 0 && (global % 32 != 0 || bits < 32)) {
      const uint64_t taken = AddPartOfWord(data, at, global, bits);
      at += taken;
      global += taken;
      bits -= taken;
    }
    if (bits == 0) return;
    if (at % 8 == 0) {
      AddWholeWords(data + at / 8, global / 32, bits / 32);
    } else {
      for (uint64_t done = 0; done < bits / 32 * 32; done += 4) {
        AddPartOfWord(data, at + done, global + done, 4);
      }
    }
    const uint64_t done = bits / 32 * 32;
    if (done < bits) Add(data, at + done, global + done, bits - done);
  }

  Fingerprint Finish() {
    Flush();
    return total_;
  }

 private:
  // One byte, or half of one where either side is not at the start of a byte.
  uint64_t AddPartOfWord(const uint8_t* data, uint64_t at, uint64_t global, uint64_t bits) {
    const uint64_t taken = at % 8 == 0 && global % 8 == 0 && bits >= 8 ? 8 : 4;
    const uint32_t part = uint32_t{data[at / 8]} >> (at % 8) & ((1u << taken) - 1);
    const uint32_t word = part << (global % 32);
    Enter(global / 32 / kFingerprintBlock);
    const uint64_t j = global / 32 % kFingerprintBlock;
    a_ += uint64_t{word} * Keys().pa[j];
    b_ += uint64_t{word} * Keys().pb[j];
    return taken;
  }

  void AddWholeWords(const uint8_t* bytes, uint64_t word, uint64_t count) {
    while (count > 0) {
      const uint64_t first = word % kFingerprintBlock;
      const uint64_t n = std::min(count, kFingerprintBlock - first);
      Enter(word / kFingerprintBlock);
      const BlockSums sums = SumWords(bytes, first, n);
      a_ += sums.a;
      b_ += sums.b;
      bytes += 4 * n;
      word += n;
      count -= n;
    }
  }

  void Enter(uint64_t block) {
    if (block == block_) return;
    Flush();
    block_ = block;
  }

  void Flush() {
    total_.a += a_ * BlockKeyA(block_);
    total_.b += b_ * BlockKeyB(block_);
    a_ = b_ = 0;
  }

  Fingerprint total_;
  uint64_t block_ = 0, a_ = 0, b_ = 0;
};

// A view as `count` runs of `length` elements, each consecutive in memory and in the logical tensor.
struct Runs {
  int64_t length = 1;
  int64_t count = 1;
  int outer = 0;  // dimensions that count the runs
};

Runs RunsOf(const TensorView& view) {
  Runs runs;
  runs.outer = view.shape.rank();
  int64_t global_step = 1;
  while (runs.outer > 0) {
    const int i = runs.outer - 1;
    const bool joins = view.shape[i] == 1 || (view.strides[i] == runs.length && global_step == runs.length);
    if (!joins) break;
    // A dimension of which only a part is held ends the run: the next one is not its neighbour.
    runs.length *= view.shape[i];
    global_step *= view.global_shape[i];
    runs.outer = i;
  }
  for (int i = 0; i < runs.outer; ++i) runs.count *= view.shape[i];
  return runs;
}

struct Start {
  int64_t memory = 0;  // in elements from view.data
  int64_t global = 0;  // in elements of the logical tensor
};

Start StartOf(const TensorView& view, const Runs& runs, int64_t run) {
  Start start;
  int64_t step = 1;
  for (int i = view.shape.rank() - 1; i >= 0; --i) {
    int64_t index = 0;
    if (i < runs.outer) {
      index = run % view.shape[i];
      run /= view.shape[i];
    }
    start.memory += index * view.strides[i];
    start.global += (view.offsets[i] + index) * step;
    step *= view.global_shape[i];
  }
  return start;
}

void AddRun(const TensorView& view, const Runs& runs, int64_t run, int64_t first, int64_t count,
            Accumulator* sum) {
  const Start start = StartOf(view, runs, run);
  const auto bits = static_cast<uint64_t>(BitsOf(view.dtype));
  sum->Add(static_cast<const uint8_t*>(view.data), static_cast<uint64_t>(start.memory + first) * bits,
           static_cast<uint64_t>(start.global + first) * bits, static_cast<uint64_t>(count) * bits);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

const FingerprintKeys& Keys() {
  static const FingerprintKeys keys = [] {
    FingerprintKeys made;
    for (uint64_t j = 0; j < kFingerprintBlock; ++j) {
      made.pa[j] = static_cast<uint32_t>(SplitMix(j)) | 1;
      made.pb[j] = static_cast<uint32_t>(SplitMix(j) >> 32) | 1;
    }
    return made;
  }();
  return keys;
}

void AddWords(const void* words, uint64_t first_word, uint64_t count, Fingerprint* sum) {
  Accumulator accumulator;
  accumulator.Add(static_cast<const uint8_t*>(words), 0, first_word * 32, count * 32);
  *sum += accumulator.Finish();
}

Fingerprint FingerprintOf(const TensorView& view) {
  if (!view.present() || view.elements() == 0) return {};
  const Runs runs = RunsOf(view);
  const int64_t bits = BitsOf(view.dtype);
  const int64_t task_elements = kTaskBits / bits;
  const int64_t pieces = (runs.length + task_elements - 1) / task_elements;  // of a run
  const int64_t runs_per_task = pieces > 1 ? 1 : std::max<int64_t>(1, task_elements / runs.length);
  const int64_t groups = (runs.count + runs_per_task - 1) / runs_per_task;
  std::vector<Fingerprint> sums(static_cast<size_t>(groups * pieces));
  const auto task = [&](int64_t t) {
    const int64_t first = t % pieces * task_elements;
    const int64_t length = std::min(task_elements, runs.length - first);
    const int64_t begin = t / pieces * runs_per_task;
    Accumulator sum;
    for (int64_t run = begin; run < std::min(runs.count, begin + runs_per_task); ++run) {
      AddRun(view, runs, run, first, length, &sum);
    }
    sums[static_cast<size_t>(t)] = sum.Finish();
  };
  if (sums.size() == 1) {
    task(0);
  } else {
    ParallelFor(static_cast<int64_t>(sums.size()), task);
  }
  Fingerprint total;
  for (const Fingerprint& sum : sums) total += sum;
  return total;
}

std::string Fingerprint::hex() const { return fmt::format("{:016x}{:016x}", a, b); }

Result<Fingerprint> Fingerprint::FromHex(std::string_view text) {
  Fingerprint f;
  bool good = text.size() == 32;
  for (size_t i = 0; good && i < 32; ++i) {
    const int digit = HexDigit(text[i]);
    good = digit >= 0;
    uint64_t& half = i < 16 ? f.a : f.b;
    half = half << 4 | static_cast<uint64_t>(digit);
  }
  if (!good) return InvalidError("\"{}\" is no fingerprint; 32 digits of 0-9 and a-f are expected", text);
  return f;
}

}  // namespace samestep
