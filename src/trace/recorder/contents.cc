#include "trace/recorder/contents.h"

#include <algorithm>
#include <cstring>

namespace samestep {
namespace {

// Sixty-four words spread over the memory, mixed.
uint64_t Sample(const TensorView& view) {
  const int64_t elements = view.elements();
  const int bits = BitsOf(view.dtype);
  uint64_t mixed = 0;
  constexpr int64_t kWords = 64;
  const int64_t step = std::max<int64_t>(1, elements / kWords);
  for (int64_t e = 0; e < elements; e += step) {
    int64_t rest = e, at = 0;
    for (int i = view.shape.rank() - 1; i >= 0; --i) {
      at += rest % view.shape[i] * view.strides[i];
      rest /= view.shape[i];
    }
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(view.data) + at * bits / 8,
                static_cast<size_t>(std::clamp(bits / 8, 1, 8)));
    mixed = SplitMix(mixed ^ word);
  }
  return mixed;
}

// A view that is one run in memory and in the logical tensor, as a vector at its place.
TensorView Canonical(const TensorView& view) {
  int64_t first = 0, step = 1, run = 1;
  bool one = view.contiguous();
  for (int i = view.shape.rank() - 1; i >= 0; --i) {
    one = one && (view.shape[i] == 1 || run == step);
    first += view.offsets[i] * step;
    run *= view.shape[i];
    step *= view.global_shape[i];
  }
  if (!one) return view;
  TensorView flat = view;
  flat.shape = {run};
  flat.strides = {1};
  flat.global_shape = {step};
  flat.offsets = {first};
  return flat;
}

}  // namespace

Contents::Extent Contents::ExtentOf(const TensorView& view) {
  const uint64_t bits = static_cast<uint64_t>(BitsOf(view.dtype));
  const auto bytes = [&](int64_t elements) { return (static_cast<uint64_t>(elements) * bits + 7) / 8; };
  int64_t last = 0;
  for (int i = 0; i < view.shape.rank(); ++i) last += (view.shape[i] - 1) * view.strides[i];
  Extent extent;
  extent.begin = reinterpret_cast<uint64_t>(view.data);
  extent.end = extent.begin + bytes(last + 1);
  extent.row = extent.stride = extent.end - extent.begin;
  if (view.contiguous() || view.shape.rank() < 2) return extent;
  // Rows that are evenly spaced: the innermost dimension alone, and the step of the one before.
  const int inner = view.shape.rank() - 1;
  const auto step = static_cast<uint64_t>(view.strides[inner - 1]) * bits / 8;
  bool even = view.strides[inner] == 1 && bits >= 8;
  for (int i = 0; i + 1 < inner; ++i) {
    even = even && (view.shape[i] == 1 || static_cast<uint64_t>(view.strides[i]) * bits / 8 % step == 0);
  }
  if (even && step >= bytes(view.shape[inner])) {
    extent.row = bytes(view.shape[inner]);
    extent.stride = step;
  }
  return extent;
}

bool Contents::Overlap(const Extent& a, const Extent& b) {
  if (a.begin >= b.end || b.begin >= a.end) return false;
  if (a.stride != b.stride || a.row + b.row > a.stride) return true;
  // Columns of one matrix: apart where neither reaches into the other within a row.
  const uint64_t distance = (b.begin % a.stride + a.stride - a.begin % a.stride) % a.stride;
  return distance < a.row || distance + b.row > a.stride;
}

bool Contents::SameContent(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides &&
         a.global_shape == b.global_shape && a.offsets == b.offsets;
}

const Contents::Known* Contents::Find(const TensorView& view) {
  if (view.elements() == 0) return nullptr;
  const TensorView canonical = Canonical(view);
  const auto [begin, end] = entries_.equal_range(reinterpret_cast<uint64_t>(view.data));
  for (auto it = begin; it != end; ++it) {
    if (!SameContent(it->second.view, canonical)) continue;
    it->second.known.changed = it->second.sample != Sample(canonical);
    return &it->second.known;
  }
  return nullptr;
}

void Contents::Remember(const TensorView& view, const Fingerprint& fingerprint, uint64_t slot) {
  if (view.elements() == 0) return;
  Entry entry;
  entry.view = Canonical(view);
  entry.extent = ExtentOf(view);
  entry.sample = Sample(entry.view);
  entry.known = {fingerprint, slot};
  longest_ = std::max(longest_, entry.extent.end - entry.extent.begin);
  const auto [begin, end] = entries_.equal_range(entry.extent.begin);
  for (auto it = begin; it != end; ++it) {
    if (SameContent(it->second.view, entry.view)) {
      it->second = std::move(entry);
      return;
    }
  }
  entries_.emplace(entry.extent.begin, std::move(entry));
}

void Contents::Overwrite(const TensorView& view) {
  if (view.elements() == 0) return;
  const Extent extent = ExtentOf(view);
  const uint64_t from = extent.begin > longest_ ? extent.begin - longest_ : 0;
  for (auto it = entries_.lower_bound(from); it != entries_.end() && it->first < extent.end;) {
    it = Overlap(it->second.extent, extent) ? entries_.erase(it) : std::next(it);
  }
}

}  // namespace samestep
