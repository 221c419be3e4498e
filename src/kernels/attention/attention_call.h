// attention_call.h: the sizes of a call of attention and the rows of its tensors, shared by the reference and
// the fast implementation.
//
// Determinism: plain integers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/call.h"

namespace samestep {

// Arguments in the order of the two kernels.
enum AttentionArgument { kQ, kK, kV, kDst, kRowMax, kRowSum, kDiffDst, kDiffQ, kDiffK, kDiffV };

// The rows of one head of one sample: row t begins at data + t * stride and has head_size features.
struct HeadRows {
  float* data;
  int64_t stride;
  float* operator[](int64_t token) const { return data + token * stride; }
};

struct AttentionSizes {
  explicit AttentionSizes(const Call& call)
      : samples(call.view(kQ).shape[0]),
        tokens(call.view(kQ).shape[1]),
        heads(call.Integer("heads")),
        kv_heads(call.Integer("kv_heads")),
        group(heads / kv_heads),
        head_size(call.Integer("head_size")),
        lanes(call.Integer("context_lanes")),
        scale(call.Real("scale")) {}

  HeadRows Rows(const TensorView& view, int64_t sample, int64_t head) const {
    const int64_t stride = view.row_stride();
    return {view.f32() + sample * tokens * stride + head * head_size, stride};
  }
  // Row maxima and row sums: [samples, heads, tokens].
  float* Statistics(const TensorView& view, int64_t sample, int64_t head) const {
    return view.f32() + (sample * heads + head) * tokens;
  }

  int64_t samples, tokens;
  int64_t heads, kv_heads, group;  // query heads that share a key head
  int64_t head_size;
  int64_t lanes;
  float scale;
};

void AttentionForwardReference(const Call& call);
void AttentionBackwardReference(const Call& call);

}  // namespace samestep
