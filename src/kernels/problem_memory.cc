#include "kernels/problem_memory.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "fingerprint/fingerprint.h"

namespace samestep {
namespace {

constexpr size_t kGuardBytes = 128;
constexpr uint32_t kGuardWord = 0xFFFFA5A5;  // a NaN; as a token, out of range

// A stream of random words of its own for each argument.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(SplitMix(seed)) {}
  uint64_t Next() { return state_ = SplitMix(state_ + 1); }
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }
  // Exponents from -8 to 8, one in sixteen a zero of either sign or a subnormal.
  float Wild() {
    const uint64_t r = Next();
    const auto sign_and_fraction = static_cast<uint32_t>(r) & 0x807FFFFF;
    const auto kind = static_cast<uint32_t>(r >> 32) % 32;
    if (kind == 0) return std::bit_cast<float>(sign_and_fraction & 0x80000000);
    if (kind == 1) return std::bit_cast<float>(sign_and_fraction);
    return std::bit_cast<float>(sign_and_fraction | static_cast<uint32_t>(119 + (r >> 40) % 17) << 23);
  }

 private:
  uint64_t state_;
};

float FloatOf(const ProblemArgument& argument, Random& random) {
  switch (argument.fill) {
    case Fill::kNormal:
      return static_cast<float>(random.Normal() * argument.scale);
    case Fill::kWild:
      return random.Wild();
    case Fill::kPositive:
      return static_cast<float>((0.1 + random.Uniform()) * argument.scale);
    default:
      return 0;
  }
}

int32_t IntegerOf(const ProblemArgument& argument, Random& random) {
  const uint64_t r = random.Next();
  if (argument.fill == Fill::kTargets && r % 8 == 0) return -1;
  if (argument.fill == Fill::kTargets || argument.fill == Fill::kTokens) {
    return static_cast<int32_t>((r >> 8) % static_cast<uint64_t>(argument.scale));
  }
  return 0;
}

void FillElements(const ProblemArgument& argument, uint64_t seed, uint8_t poison, const TensorView& view) {
  Random random(seed);
  const size_t element = static_cast<size_t>(BitsOf(view.dtype)) / 8;
  const size_t row_bytes = static_cast<size_t>(view.columns()) * element;
  for (int64_t row = 0; row < view.rows(); ++row) {
    std::byte* at =
        static_cast<std::byte*>(view.data) + static_cast<size_t>(row * view.row_stride()) * element;
    if (argument.fill == Fill::kOutput) {
      std::memset(at, poison, row_bytes);
    } else if (view.dtype == DType::kF32) {
      for (int64_t i = 0; i < view.columns(); ++i) {
        reinterpret_cast<float*>(at)[i] = FloatOf(argument, random);
      }
    } else if (view.dtype == DType::kI32) {
      for (int64_t i = 0; i < view.columns(); ++i) {
        reinterpret_cast<int32_t*>(at)[i] = IntegerOf(argument, random);
      }
    } else {
      SAMESTEP_CHECK(argument.fill == Fill::kZero);
      std::memset(at, 0, row_bytes);
    }
  }
}

uint64_t HashOf(const std::string& text) {
  uint64_t hash = 0;
  for (const char c : text) hash = SplitMix(hash ^ static_cast<uint8_t>(c));
  return hash;
}

Shape PaddedStrides(const Shape& shape, int64_t row_padding) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
    if (i == shape.rank() - 1 && shape.rank() > 1) step += row_padding;
  }
  return strides;
}

}  // namespace

ProblemMemory::ProblemMemory(const Kernel& kernel, const Problem& problem,
                             const ProblemMemoryOptions& options)
    : call_(kernel) {
  SAMESTEP_CHECK_EQ(problem.arguments.size(), kernel.arguments.size());
  memories_.resize(problem.arguments.size());
  for (size_t k = 0; k < problem.arguments.size(); ++k) {
    const ProblemArgument& argument = problem.arguments[k];
    const Access access = argument.has_access ? argument.access : kernel.arguments[k].access;
    if (argument.shape.rank() == 0) {
      call_.Add(TensorView(), access);
      continue;
    }
    const size_t element = static_cast<size_t>(BitsOf(argument.dtype)) / 8;
    TensorView view = ViewOf(nullptr, argument.shape, argument.dtype);
    view.strides = PaddedStrides(argument.shape, argument.row_padding);
    const auto held = static_cast<size_t>(view.rows() * view.row_stride()) * element;
    Memory& memory = memories_[k];
    memory.begin = kGuardBytes + (options.misaligned ? element : 0);
    const size_t words = (memory.begin + held + kGuardBytes) / sizeof(uint32_t);
    memory.tensor = Tensor::Empty({static_cast<int64_t>(words)}, DType::kU32);
    std::byte* base = static_cast<std::byte*>(memory.tensor.view().data);
    std::fill_n(reinterpret_cast<uint32_t*>(base), words, kGuardWord);
    view.data = base + memory.begin;
    FillElements(argument, HashOf(kernel.name + "/" + problem.label) + k, options.poison, view);
    call_.Add(view, access);
  }
  for (const Attribute& a : problem.attributes) {
    if (a.is_float) {
      call_.Set(a.name, a.real);
    } else {
      call_.Set(a.name, a.integer);
    }
  }
  if (problem.prepare != nullptr) problem.prepare(call_);
  const std::vector<std::string> bytes = Bytes();
  for (size_t k = 0; k < memories_.size(); ++k) memories_[k].before = bytes[k];
}

void ProblemMemory::Reset() {
  for (Memory& m : memories_) {
    if (!m.tensor.empty()) std::memcpy(m.tensor.view().data, m.before.data(), m.before.size());
  }
}

std::vector<std::string> ProblemMemory::Bytes() const {
  std::vector<std::string> bytes;
  for (const Memory& m : memories_) {
    bytes.push_back(m.tensor.empty()
                        ? ""
                        : std::string(static_cast<const char*>(m.tensor.view().data), m.tensor.bytes()));
  }
  return bytes;
}

int64_t ProblemMemory::ElementAt(int argument, size_t offset) const {
  const TensorView& view = call_.view(argument);
  const size_t begin = memories_[static_cast<size_t>(argument)].begin;
  if (offset < begin || view.elements() == 0) return -1;
  const auto at = static_cast<int64_t>((offset - begin) * 8 / static_cast<size_t>(BitsOf(view.dtype)));
  const int64_t row = at / view.row_stride(), column = at % view.row_stride();
  return row < view.rows() && column < view.columns() ? row * view.columns() + column : -1;
}

bool ProblemMemory::IsElement(int argument, size_t offset) const { return ElementAt(argument, offset) >= 0; }

std::string ProblemMemory::Locate(int argument, size_t offset) const {
  const TensorView& view = call_.view(argument);
  int64_t element = ElementAt(argument, offset);
  if (element < 0) {
    const size_t begin = memories_[static_cast<size_t>(argument)].begin;
    return fmt::format("byte {} outside its elements",
                       static_cast<int64_t>(offset) - static_cast<int64_t>(begin));
  }
  Shape index = view.shape;
  for (int i = view.shape.rank() - 1; i >= 0; --i) {
    index[i] = element % view.shape[i];
    element /= view.shape[i];
  }
  return "element " + index.ToString();
}

}  // namespace samestep
