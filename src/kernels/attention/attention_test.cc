#include "kernels/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/finite_difference.h"
#include "numerics/elementary.h"
#include "numerics/simd_target.h"
#include "numerics/sums.h"

namespace samestep {
namespace {

struct Inputs {
  int64_t tokens;
  AttentionShape shape;
  Tensor q, k, v;

  Inputs(int64_t tokens_of_sample, int heads, int kv_heads, int head_size, int lanes = 1)
      : tokens(tokens_of_sample),
        shape{heads, kv_heads, head_size, lanes, AttentionScale(head_size)},
        q(Tensor::Empty({1, tokens, int64_t{heads} * head_size})),
        k(Tensor::Empty({1, tokens, int64_t{kv_heads} * head_size})),
        v(Tensor::Empty(k.shape())) {
    std::mt19937 random(17);
    for (const Tensor* t : {&q, &k, &v}) {
      for (int64_t i = 0; i < t->elements(); ++i) {
        t->f32()[i] = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-30f;
      }
    }
  }
};

struct Results {
  explicit Results(const Inputs& in)
      : dst(Tensor::Empty(in.q.shape())),
        row_max(Tensor::Empty({1, in.shape.heads, in.tokens})),
        row_sum(Tensor::Empty({1, in.shape.heads, in.tokens})) {
    AttentionForward(in.q.view(), in.k.view(), in.v.view(), dst.view(), row_max.view(), row_sum.view(),
                     in.shape);
  }
  Tensor dst, row_max, row_sum;
};

// The textbook, in binary64: probabilities of a whole row at once.
std::vector<double> PlainAttention(const Inputs& in, const double* q, const double* k, const double* v) {
  const int64_t d = in.shape.head_size, heads = in.shape.heads, kv_heads = in.shape.kv_heads;
  std::vector<double> dst(static_cast<size_t>(in.tokens * heads * d)), p(static_cast<size_t>(in.tokens));
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t kv_head = head / (heads / kv_heads);
    for (int64_t i = 0; i < in.tokens; ++i) {
      double sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        double z = 0;
        for (int64_t c = 0; c < d; ++c)
          z += q[(i * heads + head) * d + c] * k[(j * kv_heads + kv_head) * d + c];
        sum += p[static_cast<size_t>(j)] = std::exp(z / std::sqrt(static_cast<double>(d)));
      }
      for (int64_t j = 0; j <= i; ++j) {
        for (int64_t c = 0; c < d; ++c) {
          dst[static_cast<size_t>((i * heads + head) * d + c)] +=
              p[static_cast<size_t>(j)] / sum * v[(j * kv_heads + kv_head) * d + c];
        }
      }
    }
  }
  return dst;
}

void Append(const Tensor& t, std::vector<double>& values) {
  values.insert(values.end(), t.f32(), t.f32() + t.elements());
}

TEST(AttentionTest, AgreesWithTheTextbookInBinary64) {
  for (const int64_t tokens : {1, 9, 64, 65, 150}) {
    const Inputs in(tokens, 4, 2, 5);
    std::vector<double> q, k, v;
    Append(in.q, q);
    Append(in.k, k);
    Append(in.v, v);
    const Results out(in);
    EXPECT_LT(GradientError(PlainAttention(in, q.data(), k.data(), v.data()), out.dst.f32()), 3e-6) << tokens;
  }
}

// Gradients of the sum of cotangent * attention(q, k, v) with respect to q, k and v.
void CheckGradients(const Inputs& in) {
  const Results out(in);
  Tensor cotangent = Tensor::Empty(in.q.shape()), diff_q = Tensor::Empty(in.q.shape());
  Tensor diff_k = Tensor::Empty(in.k.shape()), diff_v = Tensor::Empty(in.v.shape());
  std::mt19937 random(5);
  for (int64_t i = 0; i < cotangent.elements(); ++i) {
    cotangent.f32()[i] = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-30f;
  }
  AttentionBackward(in.q.view(), in.k.view(), in.v.view(), out.dst.view(), out.row_max.view(),
                    out.row_sum.view(), cotangent.view(), diff_q.view(), diff_k.view(), diff_v.view(),
                    in.shape);
  std::vector<double> inputs;
  Append(in.q, inputs);
  Append(in.k, inputs);
  Append(in.v, inputs);
  const auto loss = [&](const std::vector<double>& x) {
    const double* k = x.data() + in.q.elements();
    const std::vector<double> dst = PlainAttention(in, x.data(), k, k + in.k.elements());
    double sum = 0;
    for (size_t i = 0; i < dst.size(); ++i) sum += dst[i] * static_cast<double>(cotangent.f32()[i]);
    return sum;
  };
  const std::vector<double> gradient = FiniteDifference(loss, inputs);
  const auto k = gradient.begin() + in.q.elements(), v = k + in.k.elements();
  EXPECT_LT(GradientError({gradient.begin(), k}, diff_q.f32()), 1e-5);
  EXPECT_LT(GradientError({k, v}, diff_k.f32()), 1e-5);
  EXPECT_LT(GradientError({v, gradient.end()}, diff_v.f32()), 1e-5);
}

TEST(AttentionTest, GradientsAgreeWithFiniteDifferences) {
  CheckGradients(Inputs(11, 4, 2, 3));
  CheckGradients(Inputs(12, 2, 1, 2, /*lanes=*/3));
  CheckGradients(Inputs(68, 1, 1, 1));  // more than one tile
}

// Output and statistics of one head by the page's words, for any tile.
std::vector<float> InTilesOf(int64_t tile, const Inputs& in) {
  std::vector<float> result;
  const int64_t d = in.shape.head_size;
  for (int64_t i = 0; i < in.tokens; ++i) {
    float m = 0, l = 0;
    std::vector<float> o(static_cast<size_t>(d));
    for (int64_t key = 0; key <= i; key += tile) {
      const int64_t count = std::min(tile, i + 1 - key);
      std::vector<float> p;
      for (int64_t j = key; j < key + count; ++j) {
        float z = 0;
        for (int64_t c = 0; c < d; ++c) z = std::fma(in.q.f32()[i * d + c], in.k.f32()[j * d + c], z);
        p.push_back(z * in.shape.scale);
      }
      float new_max = key == 0 ? p[0] : m;
      for (const float z : p) new_max = std::max(new_max, z);
      for (float& z : p) z = ExpZ(z - new_max);
      float stripes[16] = {};
      for (size_t j = 0; j < p.size(); ++j) stripes[j % 16] += p[j];
      for (size_t half = 8; half > 0; half /= 2) {
        for (size_t s = 0; s < half; ++s) stripes[s] += stripes[s + half];
      }
      const float factor = ExpZ(m - new_max);
      l = key == 0 ? stripes[0] : std::fma(l, factor, stripes[0]);
      for (int64_t c = 0; c < d; ++c) {
        float pv = 0;
        for (int64_t j = 0; j < count; ++j) {
          pv = std::fma(p[static_cast<size_t>(j)], in.v.f32()[(key + j) * d + c], pv);
        }
        float& out = o[static_cast<size_t>(c)];
        out = key == 0 ? pv : std::fma(out, factor, pv);
      }
      m = new_max;
    }
    for (const float x : o) result.push_back(x / l);
    result.push_back(m);
    result.push_back(l);
  }
  return result;
}

TEST(AttentionTest, TilesOf64AndNoOthers) {
  const Inputs in(150, 1, 1, 4);
  const Results out(in);
  std::vector<float> got;
  for (int64_t i = 0; i < in.tokens; ++i) {
    got.insert(got.end(), out.dst.f32() + i * 4, out.dst.f32() + (i + 1) * 4);
    got.push_back(out.row_max.f32()[i]);
    got.push_back(out.row_sum.f32()[i]);
  }
  EXPECT_EQ(got, InTilesOf(64, in));
  EXPECT_NE(got, InTilesOf(32, in));
  EXPECT_NE(got, InTilesOf(128, in));
}

// Query 1 sees values that underflow to -0; multiplying in the masked key 2 as zero would make it +0.
TEST(AttentionTest, MaskedPairsAreNoTerms) {
  Inputs in(3, 1, 1, 1);
  const float k[] = {0, 1, 2}, v[] = {-1e-45f, -0.0f, 5};
  std::memcpy(in.k.f32(), k, sizeof k);
  std::memcpy(in.v.f32(), v, sizeof v);
  std::fill(in.q.f32(), in.q.f32() + 3, 1.0f);
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    const Results out(in);
    EXPECT_EQ(out.dst.f32()[1], 0) << target;
    EXPECT_TRUE(std::signbit(out.dst.f32()[1])) << target;
    EXPECT_GT(out.dst.f32()[2], 1) << target;
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

// Zeros of both signs: the maximum of a row is +0 if there is one.
TEST(AttentionTest, MaximumOfZerosIsPositive) {
  Inputs in(40, 1, 1, 1);
  for (int64_t i = 0; i < 40; ++i) {
    in.q.f32()[i] = 1e-30f;
    in.k.f32()[i] = i == 20 ? 1e-30f : -1e-30f;  // products underflow to zero
  }
  for (const std::string& target : AvailableSimdTargets()) {
    ASSERT_TRUE(ForceSimdTarget(target).ok());
    const Results out(in);
    for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(std::signbit(out.row_max.f32()[i]), i < 20) << target << i;
  }
  ASSERT_TRUE(ForceSimdTarget("best").ok());
}

// More context lanes change the gradients of keys and values (another tree), not those of queries.
TEST(AttentionTest, ContextLanesAreAnotherSum) {
  std::vector<std::vector<float>> gradients;
  for (const int lanes : {1, 2}) {
    const Inputs in(128, 2, 1, 8, lanes);
    const Results out(in);
    Tensor diff_q = Tensor::Empty(in.q.shape()), diff_k = Tensor::Empty(in.k.shape());
    Tensor diff_v = Tensor::Empty(in.v.shape());
    AttentionBackward(in.q.view(), in.k.view(), in.v.view(), out.dst.view(), out.row_max.view(),
                      out.row_sum.view(), in.q.view(), diff_q.view(), diff_k.view(), diff_v.view(), in.shape);
    for (const Tensor* t : {&diff_q, &diff_k, &diff_v}) {
      gradients.emplace_back(t->f32(), t->f32() + t->elements());
    }
  }
  EXPECT_EQ(gradients[0], gradients[3]);
  EXPECT_NE(gradients[1], gradients[4]);
  EXPECT_NE(gradients[2], gradients[5]);
}

TEST(AttentionTest, ScaleIsTheRoundedReciprocalOfTheRoundedRoot) {
  EXPECT_EQ(AttentionScale(64), 0.125f);
  EXPECT_EQ(AttentionScale(80), 1.0f / std::sqrt(80.0f));
}

}  // namespace
}  // namespace samestep
