#include "kernels/attention/attention.h"

#include <cmath>

#include "kernels/attention/attention_call.h"
#include "kernels/attention/attention_problems.h"
#include "kernels/registry.h"
#include "numerics/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kernels/attention/attention_backward-inl.h"
#include "kernels/attention/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace samestep {
namespace HWY_NAMESPACE {

void AttentionForwardOf(const Call& call) { attention::Forward(call); }
void AttentionBackwardOf(const Call& call) { attention::Backward(call); }

}  // namespace HWY_NAMESPACE
}  // namespace samestep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace samestep {
namespace {

HWY_EXPORT(AttentionForwardOf);
HWY_EXPORT(AttentionBackwardOf);

void AttentionForwardFast(const Call& call) { HWY_DYNAMIC_DISPATCH(AttentionForwardOf)(call); }
void AttentionBackwardFast(const Call& call) { HWY_DYNAMIC_DISPATCH(AttentionBackwardOf)(call); }

const Kernel& kAttentionForward = RegisterKernel(
    {.name = "attention.forward",
     .version = 1,
     .arguments = {{"q", Access::kRead},
                   {"k", Access::kRead},
                   {"v", Access::kRead},
                   {"dst", Access::kWrite},
                   {"row_max", Access::kWrite},
                   {"row_sum", Access::kWrite}},
     .reference = AttentionForwardReference,
     .fast = AttentionForwardFast,
     .problems = AttentionForwardProblems,
     .summary = "causal softmax(q k^T * scale) v; online over key tiles of 64, each chain within a tile"});

const Kernel& kAttentionBackward = RegisterKernel(
    {.name = "attention.backward",
     .version = 1,
     .arguments = {{"q", Access::kRead},
                   {"k", Access::kRead},
                   {"v", Access::kRead},
                   {"dst", Access::kRead},
                   {"row_max", Access::kRead},
                   {"row_sum", Access::kRead},
                   {"diff_dst", Access::kRead},
                   {"diff_q", Access::kWrite},
                   {"diff_k", Access::kWrite},
                   {"diff_v", Access::kWrite}},
     .reference = AttentionBackwardReference,
     .fast = AttentionBackwardFast,
     .problems = AttentionBackwardProblems,
     .summary = "gradients of q (over key tiles of 64), k and v (over query heads and query tiles of 64, one "
                "accumulator a context lane, then the tree)"});

void CheckShapes(const TensorView& q, const TensorView& k, const TensorView& row_max,
                 const AttentionShape& shape) {
  SAMESTEP_CHECK_EQ(q.shape.rank(), 3);
  SAMESTEP_CHECK(shape.head_size >= 1 && shape.head_size <= kMaxHeadSize);
  SAMESTEP_CHECK(shape.kv_heads >= 1 && shape.heads % shape.kv_heads == 0);
  SAMESTEP_CHECK(shape.context_lanes >= 1 && q.shape[1] % shape.context_lanes == 0);
  SAMESTEP_CHECK(q.shape == (Shape{q.shape[0], q.shape[1], shape.heads * shape.head_size}));
  SAMESTEP_CHECK(k.shape == (Shape{q.shape[0], q.shape[1], shape.kv_heads * shape.head_size}));
  SAMESTEP_CHECK(row_max.shape == (Shape{q.shape[0], shape.heads, q.shape[1]}));
  SAMESTEP_CHECK(row_max.contiguous());
}

void SetShape(Call& call, const AttentionShape& shape) {
  call.Set("heads", shape.heads).Set("kv_heads", shape.kv_heads).Set("head_size", shape.head_size);
  call.Set("context_lanes", shape.context_lanes).Set("scale", shape.scale);
}

}  // namespace

float AttentionScale(int head_size) { return 1 / std::sqrt(static_cast<float>(head_size)); }

void AttentionForward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& dst,
                      const TensorView& row_max, const TensorView& row_sum, const AttentionShape& shape) {
  CheckShapes(q, k, row_max, shape);
  SAMESTEP_CHECK(v.shape == k.shape && dst.shape == q.shape && row_sum.shape == row_max.shape);
  Call call(kAttentionForward);
  call.Read(q).Read(k).Read(v).Write(dst).Write(row_max).Write(row_sum);
  SetShape(call, shape);
  Run(call);
}

void AttentionBackward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& dst,
                       const TensorView& row_max, const TensorView& row_sum, const TensorView& diff_dst,
                       const TensorView& diff_q, const TensorView& diff_k, const TensorView& diff_v,
                       const AttentionShape& shape) {
  CheckShapes(q, k, row_max, shape);
  SAMESTEP_CHECK(v.shape == k.shape && dst.shape == q.shape && row_sum.shape == row_max.shape);
  SAMESTEP_CHECK(diff_dst.shape == q.shape && diff_q.shape == q.shape);
  SAMESTEP_CHECK(diff_k.shape == k.shape && diff_v.shape == k.shape);
  Call call(kAttentionBackward);
  call.Read(q).Read(k).Read(v).Read(dst).Read(row_max).Read(row_sum).Read(diff_dst);
  call.Write(diff_q).Write(diff_k).Write(diff_v);
  SetShape(call, shape);
  Run(call);
}

}  // namespace samestep
#endif  // HWY_ONCE
