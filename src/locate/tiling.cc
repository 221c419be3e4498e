#include "locate/tiling.h"

#include <algorithm>

namespace samestep {
namespace {

// Boxes cut at each other's edges, beyond which a tiling counts as none.
constexpr size_t kMaxCuts = size_t{1} << 22;

class Cover {
 public:
  explicit Cover(const Box& whole) : whole_(whole) {}

  // Whether the boxes, which agree in all dimensions before `d`, cover the whole from there on.
  bool Exact(const std::vector<const Box*>& boxes, int d) {
    if (d == whole_.shape.rank()) return boxes.size() == 1;
    std::vector<int64_t> edges = {whole_.offsets[d], whole_.offsets[d] + whole_.shape[d]};
    for (const Box* box : boxes) {
      edges.push_back(box->offsets[d]);
      edges.push_back(box->offsets[d] + box->shape[d]);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    if (edges.front() != whole_.offsets[d] || edges.back() != whole_.offsets[d] + whole_.shape[d])
      return false;
    std::vector<std::vector<const Box*>> slabs(edges.size() - 1);
    for (const Box* box : boxes) {
      auto i =
          static_cast<size_t>(std::lower_bound(edges.begin(), edges.end(), box->offsets[d]) - edges.begin());
      for (; edges[i] < box->offsets[d] + box->shape[d]; ++i) {
        if (++cuts_ > kMaxCuts) return false;
        slabs[i].push_back(box);
      }
    }
    return std::all_of(slabs.begin(), slabs.end(), [&](const auto& slab) { return Exact(slab, d + 1); });
  }

 private:
  const Box& whole_;
  size_t cuts_ = 0;
};

auto Compare(const Shape& a, const Shape& b) {
  for (int i = 0; i < std::min(a.rank(), b.rank()); ++i) {
    if (a[i] != b[i]) return a[i] <=> b[i];
  }
  return int64_t{a.rank()} <=> int64_t{b.rank()};
}

}  // namespace

bool Box::operator<(const Box& other) const {
  const auto order = Compare(offsets, other.offsets);
  return order < 0 || (order == 0 && Compare(shape, other.shape) < 0);
}

Box BoxOf(const TensorSite& site) { return {site.offsets, site.shape}; }

bool Contains(const Box& outer, const Box& inner) {
  if (outer.shape.rank() != inner.shape.rank()) return false;
  for (int i = 0; i < outer.shape.rank(); ++i) {
    if (inner.offsets[i] < outer.offsets[i] ||
        inner.offsets[i] + inner.shape[i] > outer.offsets[i] + outer.shape[i])
      return false;
  }
  return true;
}

bool Tiles(const std::vector<Box>& boxes, const Box& whole) {
  int64_t elements = 0;
  std::vector<const Box*> pointers;
  for (const Box& box : boxes) {
    if (!Contains(whole, box)) return false;
    elements += box.shape.elements();
    if (elements > whole.shape.elements()) return false;
    if (box.shape.elements() > 0) pointers.push_back(&box);
  }
  if (elements != whole.shape.elements()) return false;
  return elements == 0 || Cover(whole).Exact(pointers, 0);
}

}  // namespace samestep
