#include "kernels/linear/gemm.h"

#include <algorithm>

#include "base/check.h"
#include "base/parallel_for.h"
#include "kernels/linear/gemm_kernels.h"
#include "kernels/linear/scratch.h"

namespace samestep {
namespace {

constexpr int64_t kPackedFloats = int64_t{1} << 19;   // of the shared operand at a time: it should stay in L3
constexpr int64_t kScratchFloats = int64_t{4} << 20;  // of scratch planes at a time
constexpr int64_t kStripeFloats = 24 << 10;           // of a packed stripe: it should stay in L2
constexpr int64_t kStripesPerThread = 8;
constexpr int64_t kMaxCount = 256;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One operand as panels.
struct Side {
  bool is_left;
  TermLayout layout;
  int64_t first, extent;    // rows (columns) of the output
  int64_t width, multiple;  // of a panel; the last may be narrower, a multiple of this
  int64_t panels() const { return CeilDivide(extent, width); }
  int64_t Used(int64_t panel) const { return std::min(width, extent - panel * width); }
  int64_t Padded(int64_t panel) const { return CeilDivide(Used(panel), multiple) * multiple; }
};

Side LeftSide(const GemmPlan& plan, const GemmKernels& kernels, int64_t first, int64_t rows) {
  return {true, plan.left_layout, first, rows, kernels.rows, kernels.rows};
}

Side RightSide(const GemmPlan& plan, const GemmKernels& kernels) {
  return {false, plan.right_layout, 0, plan.columns, kernels.vectors * kernels.lanes, kernels.lanes};
}

void PackPanel(const GemmKernels& kernels, const Side& side, const GemmStep& step, int64_t panel,
               float* packed) {
  GemmOperand source = side.is_left ? step.left : step.right;
  const int64_t begin = side.first + panel * side.width;
  source.data += side.layout == TermLayout::kContiguous ? begin * source.stride : begin;
  kernels.pack({source, side.layout, step.count, side.Used(panel), side.Padded(panel)}, packed);
}

// Some rows of the output, all of its columns.
class Pass {
 public:
  Pass(const GemmPlan& plan, int64_t first_row, int64_t rows)
      : plan_(plan), kernels_(CurrentGemmKernels()), planes_(plan.planes) {
    const Side left = LeftSide(plan, kernels_, first_row, rows), right = RightSide(plan, kernels_);
    // The smaller operand is packed once and shared; threads pack their stripes of the larger one. Unless
    // those are so few that threads would wait for one another: left panels are narrower.
    const bool enough = right.panels() >= std::min(ThreadCount() * kStripesPerThread, left.panels());
    const bool share_left = rows <= plan.columns && enough;
    shared_ = share_left ? left : right;
    striped_ = share_left ? right : left;
    AddScratchPlanes(rows);
  }

  void Run() {
    for (size_t begin = 0; begin < plan_.steps.size();) {
      const size_t end = GroupEnd(begin);
      PackShared(begin, end);
      ComputeStripes(begin, end);
      begin = end;
    }
  }

 private:
  void AddScratchPlanes(int64_t rows) {
    if (plan_.scratch_planes == 0) return;
    thread_local ScratchBuffer buffer;
    const int64_t size = rows * plan_.columns;
    float* memory = buffer.Reserve(size * plan_.scratch_planes);
    for (int p = 0; p < plan_.scratch_planes; ++p) {
      planes_.push_back({memory + p * size, plan_.columns});
    }
  }

  // Steps whose shared panels are in memory at the same time.
  size_t GroupEnd(size_t begin) const {
    int64_t floats = 0;
    size_t end = begin;
    do {
      floats += SharedFloats(plan_.steps[end++]);
    } while (end < plan_.steps.size() && floats + SharedFloats(plan_.steps[end]) <= kPackedFloats);
    return end;
  }

  int64_t SharedFloats(const GemmStep& step) const { return shared_.panels() * shared_.width * step.count; }

  void PackShared(size_t begin, size_t end) {
    thread_local ScratchBuffer buffer;
    int64_t floats = 0;
    for (size_t s = begin; s < end; ++s) floats += SharedFloats(plan_.steps[s]);
    float* memory = buffer.Reserve(floats);
    packed_.clear();
    for (size_t s = begin; s < end; ++s) {
      packed_.push_back(memory);
      memory += SharedFloats(plan_.steps[s]);
    }
    const int64_t panels = shared_.panels();
    ParallelFor(panels * static_cast<int64_t>(end - begin), [&](int64_t i) {
      const int64_t panel = i % panels;
      const size_t s = static_cast<size_t>(i / panels);
      const GemmStep& step = plan_.steps[begin + s];
      PackPanel(kernels_, shared_, step, panel, packed_[s] + panel * shared_.width * step.count);
    });
  }

  void ComputeStripes(size_t begin, size_t end) {
    const int64_t panels = striped_.panels();
    const int64_t most = std::max<int64_t>(1, kStripeFloats / (striped_.width * kMaxCount));
    const int64_t width = std::clamp<int64_t>(panels / (ThreadCount() * kStripesPerThread), 1, most);
    ParallelFor(CeilDivide(panels, width), [&](int64_t stripe) {
      const int64_t first = stripe * width;
      ComputeStripe(begin, end, first, std::min(first + width, panels));
    });
  }

  // Panels of one operand for one step.
  struct Panels {
    int64_t first, last;
    const float* packed;
    int64_t floats;  // from panel to panel
  };

  void ComputeStripe(size_t begin, size_t end, int64_t first, int64_t last) const {
    thread_local ScratchBuffer buffer;
    float* packed = buffer.Reserve((last - first) * striped_.width * kMaxCount);
    for (size_t s = begin; s < end; ++s) {
      const GemmStep& step = plan_.steps[s];
      const Panels stripe = {first, last, packed, striped_.width * step.count};
      for (int64_t p = first; p < last; ++p) {
        PackPanel(kernels_, striped_, step, p, packed + (p - first) * stripe.floats);
      }
      const Panels shared = {0, shared_.panels(), packed_[s - begin], shared_.width * step.count};
      ComputeTiles(s, shared_.is_left ? shared : stripe, shared_.is_left ? stripe : shared);
    }
  }

  // Right panels are the larger ones: each should stay in the first cache while left panels pass by.
  void ComputeTiles(size_t s, const Panels& left, const Panels& right) const {
    for (int64_t r = right.first; r < right.last; ++r) {
      for (int64_t l = left.first; l < left.last; ++l) {
        ComputeTile(s, l, left.packed + (l - left.first) * left.floats, r,
                    right.packed + (r - right.first) * right.floats);
      }
    }
  }

  void ComputeTile(size_t s, int64_t left_panel, const float* left_packed, int64_t right_panel,
                   const float* right_packed) const {
    const GemmStep& step = plan_.steps[s];
    const Side& left = shared_.is_left ? shared_ : striped_;
    const Side& right = shared_.is_left ? striped_ : shared_;
    const int64_t row = left.first + left_panel * left.width, column = right_panel * right.width;
    const int64_t rows = left.Used(left_panel), columns = right.Used(right_panel);
    const float* bias = plan_.bias != nullptr && s + 1 == plan_.steps.size() ? plan_.bias + column : nullptr;
    const auto at = [&](int plane) {
      const GemmPlane& p = planes_[static_cast<size_t>(plane)];
      const bool is_scratch = plane >= static_cast<int>(plan_.planes.size());  // begins at this pass
      return GemmPlane{p.data + (is_scratch ? row - left.first : row) * p.stride + column, p.stride};
    };
    const GemmPlane output = at(step.plane);
    kernels_.tile({.left = left_packed,
                   .right = right_packed,
                   .count = step.count,
                   .rows = rows,
                   .columns = columns,
                   .output = output.data,
                   .stride = output.stride,
                   .sets = step.sets,
                   .bias = step.merges == 0 ? bias : nullptr});
    for (int m = 0; m < step.merges; ++m) {
      const GemmPlane low = at(step.plane - m - 1), high = at(step.plane - m);
      kernels_.merge({.output = low.data,
                      .stride = low.stride,
                      .addend = high.data,
                      .addend_stride = high.stride,
                      .rows = rows,
                      .columns = columns,
                      .bias = m + 1 == step.merges ? bias : nullptr});
    }
  }

  const GemmPlan& plan_;
  const GemmKernels& kernels_;
  Side shared_, striped_;
  std::vector<GemmPlane> planes_;
  std::vector<float*> packed_;  // shared panels of each step of the group
};

}  // namespace

void RunGemm(const GemmPlan& plan) {
  if (plan.rows == 0 || plan.columns == 0 || plan.steps.empty()) return;
  int64_t pass_rows = plan.rows;
  if (plan.scratch_planes > 0) {
    const int64_t panel = CurrentGemmKernels().rows;
    const int64_t most = kScratchFloats / (plan.columns * plan.scratch_planes);
    pass_rows = std::min(pass_rows, std::max(most / panel, int64_t{1}) * panel);
  }
  for (int64_t row = 0; row < plan.rows; row += pass_rows) {
    Pass(plan, row, std::min(pass_rows, plan.rows - row)).Run();
  }
}

}  // namespace samestep
