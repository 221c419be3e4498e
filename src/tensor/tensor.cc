#include "tensor/tensor.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace samestep {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
std::atomic<bool> poison{false};

thread_local int64_t bytes_alive = 0, bytes_peak = 0;

size_t AlignmentOf(size_t used) { return used >= kHugePage ? kHugePage : kAlignment; }

Shape RowMajorStrides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

Shape ZeroOffsets(const Shape& shape) {
  Shape offsets = shape;
  for (int i = 0; i < shape.rank(); ++i) offsets[i] = 0;
  return offsets;
}

std::byte* Advance(void* data, DType dtype, int64_t elements) {
  return static_cast<std::byte*>(data) + elements * BitsOf(dtype) / 8;
}

}  // namespace

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += fmt::format("{}{}", i ? ", " : "", (*this)[i]);
  return text + "]";
}

int64_t TensorView::row_stride() const {
  if (shape.rank() < 2) return columns();
  const int last = shape.rank() - 1;
  SAMESTEP_CHECK_EQ(strides[last], int64_t{1});
  for (int i = 0; i + 1 < last; ++i) {
    if (shape[i] != 1) SAMESTEP_CHECK_EQ(strides[i], strides[i + 1] * shape[i + 1]);
  }
  return strides[last - 1];
}

bool TensorView::contiguous() const {
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

TensorView TensorView::Within(const Shape& global, const Shape& at) const {
  SAMESTEP_CHECK_EQ(global.rank(), shape.rank());
  SAMESTEP_CHECK_EQ(at.rank(), shape.rank());
  TensorView view = *this;
  view.global_shape = global;
  view.offsets = at;
  return view;
}

TensorView TensorView::Slice(int64_t first, int64_t count) const {
  SAMESTEP_CHECK(first >= 0 && count >= 0 && first + count <= shape[0]);
  TensorView view = *this;
  view.data = Advance(data, dtype, first * strides[0]);
  view.shape[0] = count;
  view.offsets[0] += first;
  return view;
}

TensorView TensorView::Columns(int64_t first, int64_t count) const {
  const int last = shape.rank() - 1;
  SAMESTEP_CHECK(first >= 0 && count >= 0 && first + count <= shape[last]);
  TensorView view = *this;
  view.data = Advance(data, dtype, first);
  view.shape[last] = count;
  view.global_shape[last] = count;
  view.offsets[last] = 0;
  return view;
}

TensorView TensorView::Reshaped(const Shape& to) const {
  SAMESTEP_CHECK(contiguous());
  SAMESTEP_CHECK_EQ(to.elements(), elements());
  TensorView view = ViewOf(data, to, dtype);
  view.placement = placement;
  view.lane_begin = lane_begin;
  view.lane_end = lane_end;
  view.lane_count = lane_count;
  return view;
}

TensorView TensorView::AsPartial(int32_t begin, int32_t end, int32_t count) const {
  TensorView view = *this;
  view.placement = Placement::kPartial;
  view.lane_begin = begin;
  view.lane_end = end;
  view.lane_count = count;
  return view;
}

TensorView ViewOf(void* data, const Shape& shape, DType dtype) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.shape = shape;
  view.strides = RowMajorStrides(shape);
  view.global_shape = shape;
  view.offsets = ZeroOffsets(shape);
  return view;
}

void Tensor::Free::operator()(void* p) const {
  bytes_alive -= static_cast<int64_t>(bytes);
  std::free(p);
}

size_t AllocatedBytes(size_t used) {
  const size_t alignment = AlignmentOf(used);
  return (used + alignment) / alignment * alignment;
}

int64_t TensorBytesAlive() { return bytes_alive; }
int64_t TensorBytesPeak() { return bytes_peak; }
void ResetTensorBytesPeak() { bytes_peak = bytes_alive; }

Tensor Tensor::Empty(const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.view_ = ViewOf(nullptr, shape, dtype);
  const size_t used = tensor.bytes();
  const size_t alignment = AlignmentOf(used), allocated = AllocatedBytes(used);
  void* memory = std::aligned_alloc(alignment, allocated);
  if (memory == nullptr) {
    throw OutOfMemory(fmt::format(
        "no memory for a tensor of {} bytes, shape {}; use a smaller train.micro_batch, memory.recompute = "
        "\"layer\", or a smaller model",
        used, shape.ToString()));
  }
  if (alignment == kHugePage) ::madvise(memory, allocated, MADV_HUGEPAGE);
  if (poison) std::memset(memory, 0xFF, used);  // NaN in every float type
  bytes_alive += static_cast<int64_t>(allocated);
  bytes_peak = std::max(bytes_peak, bytes_alive);
  tensor.memory_ = {memory, Free(allocated)};
  tensor.view_.data = memory;
  return tensor;
}

Tensor Tensor::Zeros(const Shape& shape, DType dtype) {
  Tensor tensor = Empty(shape, dtype);
  std::memset(tensor.view_.data, 0, tensor.bytes());
  return tensor;
}

void SetPoisonEmptyTensors(bool on) { poison = on; }

}  // namespace samestep
