#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/cross_entropy_shards_call.h"
#include "numerics/elementary.h"
#include "numerics/sums.h"

namespace samestep {

void CrossEntropyMaxReference(const Call& call) {
  const TensorView &logits = call.view(0), &local_max = call.view(1);
  const int64_t columns = logits.columns();
  for (int64_t row = 0; row < local_max.elements(); ++row) {
    const float* z = logits.f32() + row * logits.row_stride();
    local_max.f32()[row] = columns == 0 ? -std::numeric_limits<float>::infinity() : RowMax({z}, columns);
  }
}

void CrossEntropySumReference(const Call& call) {
  const CrossEntropySumArguments a(call);
  std::vector<float> p(static_cast<size_t>(a.columns));
  for (int64_t row = 0; row < a.rows; ++row) {
    float* z = a.Row(row);
    const int32_t target = a.Target(row);
    const float m = RowMax({a.maxima + row, a.rows}, a.shards);
    for (int64_t i = 0; i < a.columns; ++i) p[i] = ExpZ(z[i] - m);
    std::vector<float> parts;
    for (int64_t lane = 0; lane < a.lanes; ++lane) {
      const int64_t begin = std::min(lane * a.lane_size, a.columns);
      const int64_t end = std::min((lane + 1) * a.lane_size, a.columns);
      parts.push_back(RowSum({p.data() + begin}, end - begin));
    }
    a.row_max[row] = m;
    a.lane_sum[row] = Tree(parts);
    a.target_logit[row] = a.Column(target) < 0 ? 0 : z[a.Column(target)];
    if (a.want_gradient && target >= 0) std::copy(p.begin(), p.end(), z);
  }
}

void CrossEntropyLossReference(const Call& call) {
  const CrossEntropyLossArguments a(call);
  for (int64_t row = 0; row < a.rows; ++row) {
    float* p = a.Row(row);
    const int32_t target = a.Target(row);
    std::vector<float> parts;
    for (int64_t shard = 0; shard < a.shards; ++shard) parts.push_back(a.lane_sums[shard * a.rows + row]);
    const float l = Tree(parts);
    a.loss[row] = target < 0 ? 0 : (a.row_max[row] - a.TargetLogit(target, row)) + Log(l);
    a.row_sum[row] = l;
    if (!a.want_gradient) continue;
    for (int64_t i = 0; i < a.columns; ++i) {
      const float onehot = i == a.Column(target) ? 1 : 0;
      p[i] = target < 0 ? 0 : (p[i] / l - onehot) * a.weight;
    }
  }
}

}  // namespace samestep
