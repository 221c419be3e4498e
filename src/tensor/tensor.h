// tensor.h: memory that holds a tensor, and views that say which part of which logical tensor it is.
//
//   Tensor x = Tensor::Empty({2, 24, 32});                       // owns its memory, f32, 64-byte aligned
//   TensorView whole = x.view();
//   TensorView batch = x.view().Within({8, 24, 32}, {4, 0, 0});  // samples 4 and 5 of a global batch of 8
//   float* row = whole.f32() + whole.row_stride() * r;
//
// A view has strides in elements; the innermost is 1. The logical tensor (its global shape, and where this
// part lies in it) is what fingerprints and traces speak of, so that shards add up.
//
// Determinism: views are descriptions. Empty memory is unwritten; kernels must write before they read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace samestep {

// How a part relates to its logical tensor (design: placement).
enum class Placement : uint8_t {
  kShard = 0,    // elements [offsets, offsets + shape) of the global shape; a whole tensor is one too
  kReplica = 1,  // the whole, held by others as well
  kPartial = 2,  // a partial sum: lanes [lane_begin, lane_end) of lane_count
};

struct TensorView {
  void* data = nullptr;  // null: an optional argument that is absent
  DType dtype = DType::kF32;
  Shape shape;         // what is held here
  Shape strides;       // in elements
  Shape global_shape;  // of the logical tensor
  Shape offsets;       // of this part in the logical tensor
  Placement placement = Placement::kShard;
  int32_t lane_begin = 0, lane_end = 1, lane_count = 1;  // of a partial

  bool present() const { return data != nullptr; }
  float* f32() const { return As<float>(DType::kF32); }
  int32_t* i32() const { return As<int32_t>(DType::kI32); }
  int64_t* i64() const { return As<int64_t>(DType::kI64); }
  uint64_t* u64() const { return As<uint64_t>(DType::kU64); }
  double* f64() const { return As<double>(DType::kF64); }
  int64_t elements() const { return shape.elements(); }

  // The view as a matrix: all dimensions but the last are rows, which must be evenly spaced.
  int64_t columns() const { return shape.rank() == 0 ? 1 : shape.back(); }
  int64_t rows() const { return columns() == 0 ? 0 : elements() / columns(); }
  int64_t row_stride() const;  // elements from row to row
  bool contiguous() const;

  // This memory seen as part of a logical tensor of `global` shape, beginning at `at`.
  TensorView Within(const Shape& global, const Shape& at) const;
  // `count` entries of the first dimension from `first`; the logical position moves along.
  TensorView Slice(int64_t first, int64_t count) const;
  // `count` columns (last dimension) from `first` as a logical tensor of its own.
  TensorView Columns(int64_t first, int64_t count) const;
  // Contiguous memory under another shape, as a whole logical tensor.
  TensorView Reshaped(const Shape& shape) const;
  TensorView AsPartial(int32_t begin, int32_t end, int32_t count) const;

 private:
  template <typename T>
  T* As(DType expected) const {
    SAMESTEP_CHECK_EQ(static_cast<int>(dtype), static_cast<int>(expected));
    return static_cast<T*>(data);
  }
};

// A whole, contiguous tensor at `data`.
TensorView ViewOf(void* data, const Shape& shape, DType dtype = DType::kF32);

// The system has no memory left. The one exception of the project's own: whoever allocates cannot go on, and
// the command line says it.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

class Tensor {
 public:
  Tensor() = default;
  static Tensor Empty(const Shape& shape, DType dtype = DType::kF32);
  static Tensor Zeros(const Shape& shape, DType dtype = DType::kF32);
  const TensorView& view() const { return view_; }
  const Shape& shape() const { return view_.shape; }
  float* f32() const { return view_.f32(); }
  int32_t* i32() const { return view_.i32(); }
  int64_t elements() const { return view_.elements(); }
  size_t bytes() const {
    return static_cast<size_t>(elements()) * static_cast<size_t>(BitsOf(view_.dtype)) / 8;
  }
  bool empty() const { return view_.data == nullptr; }

 private:
  struct Free {
    Free() : bytes(0) {}
    explicit Free(size_t n) : bytes(n) {}
    size_t bytes;
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> memory_;
  TensorView view_;
};

// What a tensor of so many bytes takes from the system: whole cache lines, large ones whole huge pages.
size_t AllocatedBytes(size_t used);

// Memory of the tensors that the calling thread has made, less that of those it has destroyed: now, and the
// most since the thread began or ResetTensorBytesPeak. Tests hold it against the plan.
int64_t TensorBytesAlive();
int64_t TensorBytesPeak();
void ResetTensorBytesPeak();

// Test mode: memory of Tensor::Empty is filled with signalling patterns, so that a read of what was never
// written shows in the digest. Off by default; `--poison` of the command line and tests turn it on.
void SetPoisonEmptyTensors(bool on);

}  // namespace samestep
