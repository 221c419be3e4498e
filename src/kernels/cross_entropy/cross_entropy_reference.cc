#include "kernels/cross_entropy/cross_entropy_reference.h"

#include <algorithm>
#include <vector>

#include "numerics/elementary.h"
#include "numerics/sums.h"

namespace samestep {

void CrossEntropyReference(const Call& call) {
  const TensorView &logits = call.view(0), &targets = call.view(1), &loss = call.view(2);
  const TensorView &row_max = call.view(3), &row_sum = call.view(4);
  const int64_t lane_size = call.Integer("vocab_lane_size"), lanes = call.Integer("tensor_lanes");
  const float weight = call.Real("weight");
  const int64_t vocabulary = logits.columns();
  std::vector<float> p(static_cast<size_t>(vocabulary));
  for (int64_t row = 0; row < logits.rows(); ++row) {
    float* z = logits.f32() + row * logits.row_stride();
    const int32_t target = targets.i32()[row];
    SAMESTEP_CHECK(target >= -1 && target < vocabulary);
    const float m = RowMax({z}, vocabulary);
    for (int64_t i = 0; i < vocabulary; ++i) p[i] = ExpZ(z[i] - m);
    std::vector<float> parts;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t begin = std::min(lane * lane_size, vocabulary);
      const int64_t end = std::min((lane + 1) * lane_size, vocabulary);
      parts.push_back(RowSum({p.data() + begin}, end - begin));
    }
    const float l = Tree(parts);
    loss.f32()[row] = target < 0 ? 0 : (m - z[target]) + Log(l);
    row_max.f32()[row] = m;
    row_sum.f32()[row] = l;
    if (call.Integer("want_gradient") == 0) continue;
    for (int64_t i = 0; i < vocabulary; ++i) {
      const float onehot = i == target ? 1 : 0;
      z[i] = target < 0 ? 0 : (p[i] / l - onehot) * weight;
    }
  }
}

}  // namespace samestep
