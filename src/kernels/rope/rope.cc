#include "kernels/rope/rope.h"

#include <fmt/format.h>

#include "kernels/registry.h"
#include "kernels/rope/rope_reference.h"
#include "kernels/row_tasks.h"
#include "numerics/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope/rope.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "numerics/fma-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {
namespace rope {

namespace hn = hwy::HWY_NAMESPACE;

// Turns the pairs (first[i], second[i]), i in [0, half).
template <class D>
HWY_INLINE int64_t TurnPairs(D d, int64_t begin, int64_t half, bool back, const float* cos, const float* sin,
                             float* first, float* second) {
  const int64_t lanes = hn::MaxLanes(d);
  int64_t i = begin;
  for (; i + lanes <= half; i += lanes) {
    const auto c = hn::LoadU(d, cos + i), x1 = hn::LoadU(d, first + i), x2 = hn::LoadU(d, second + i);
    auto s = hn::LoadU(d, sin + i);
    if (back) s = hn::Neg(s);
    hn::StoreU(ExactMulAdd(d, x1, c, hn::Neg(hn::Mul(x2, s))), d, first + i);
    hn::StoreU(ExactMulAdd(d, x2, c, hn::Mul(x1, s)), d, second + i);
  }
  return i;
}

void Turn(const Call& call, bool back) {
  const TensorView &x = call.view(0), &cos = call.view(1), &sin = call.view(2);
  const int64_t head_size = call.Integer("head_size"), half = head_size / 2, tokens = x.shape[1];
  ForRowGroups(x.rows(), x.columns(), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      const float *const c = cos.f32() + row % tokens * half, *const s = sin.f32() + row % tokens * half;
      float* const features = x.f32() + row * x.row_stride();
      for (int64_t head = 0; head < x.columns(); head += head_size) {
        float *const first = features + head, *const second = first + half;
        const int64_t done = TurnPairs(hn::ScalableTag<float>(), 0, half, back, c, s, first, second);
        TurnPairs(hn::CappedTag<float, 1>(), done, half, back, c, s, first, second);
      }
    }
  });
}

}  // namespace rope

void RopeForwardOf(const Call& call) { rope::Turn(call, false); }
void RopeBackwardOf(const Call& call) { rope::Turn(call, true); }

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(RopeForwardOf);
HWY_EXPORT(RopeBackwardOf);

void RopeForwardFast(const Call& call) { HWY_DYNAMIC_DISPATCH(RopeForwardOf)(call); }
void RopeBackwardFast(const Call& call) { HWY_DYNAMIC_DISPATCH(RopeBackwardOf)(call); }

std::vector<Problem> Problems() {
  struct Sizes {
    int64_t samples, tokens, heads, head_size, row_padding;
    bool timed;
  };
  std::vector<Problem> problems;
  for (const Sizes& s :
       {Sizes{1, 1, 1, 2, 0, false}, Sizes{2, 5, 3, 6, 1, false}, Sizes{2, 33, 2, 50, 0, false},
        Sizes{1, 65, 4, 64, 128, false}, Sizes{3, 7, 1, 256, 0, false}, Sizes{4, 512, 12, 64, 0, true}}) {
    const Shape table{s.tokens, s.head_size / 2};
    Problem p;
    p.label = fmt::format("samples {} tokens {} heads {} size {}{}", s.samples, s.tokens, s.heads,
                          s.head_size, s.row_padding ? " strided" : "");
    p.arguments = {{.shape = {s.samples, s.tokens, s.heads * s.head_size},
                    .fill = Fill::kWild,
                    .row_padding = s.row_padding},
                   {.shape = table},
                   {.shape = table}};
    p.attributes = {IntegerAttribute("head_size", s.head_size)};
    p.timed = s.timed;
    problems.push_back(std::move(p));
  }
  return problems;
}

const Kernel& Register(const char* name, void (*reference)(const Call&), void (*fast)(const Call&),
                       const char* summary) {
  return RegisterKernel(
      {.name = name,
       .version = 1,
       .arguments = {{"x", Access::kUpdate}, {"cos", Access::kRead}, {"sin", Access::kRead}},
       .reference = reference,
       .fast = fast,
       .problems = Problems,
       .summary = summary});
}

const Kernel& kRopeForward =
    Register("rope.forward", RopeForwardReference, RopeForwardFast,
             "(x1, x2) to (fma(x1, cos, -(x2*sin)), fma(x2, cos, x1*sin)), halves of each head; no sums");
const Kernel& kRopeBackward =
    Register("rope.backward", RopeBackwardReference, RopeBackwardFast, "rope.forward with -sin; no sums");

void RunRope(const Kernel& kernel, const TensorView& x, const TensorView& cos, const TensorView& sin,
             int head_size) {
  SAMESTEP_CHECK_EQ(x.shape.rank(), 3);
  SAMESTEP_CHECK(head_size >= 2 && head_size % 2 == 0);
  SAMESTEP_CHECK_EQ(x.columns() % head_size, 0);
  SAMESTEP_CHECK(cos.shape == sin.shape && cos.shape.rank() == 2 && cos.shape[1] == head_size / 2);
  SAMESTEP_CHECK_GE(cos.shape[0], x.shape[1]);
  SAMESTEP_CHECK(cos.contiguous() && sin.contiguous());
  Call call(kernel);
  call.Update(x).Read(cos).Read(sin).Set("head_size", head_size);
  Run(call);
}

}  // namespace

void RopeForward(const TensorView& x, const TensorView& cos, const TensorView& sin, int head_size) {
  RunRope(kRopeForward, x, cos, sin, head_size);
}

void RopeBackward(const TensorView& diff, const TensorView& cos, const TensorView& sin, int head_size) {
  RunRope(kRopeBackward, diff, cos, sin, head_size);
}

}  // namespace samestep
#endif  // HWY_ONCE
