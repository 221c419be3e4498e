// The linear kernels against an independent program's vectors and against finite differences. (Fast against
// reference on every target, thread count and schedule: kernels/registry_test.cc.)
#include "kernels/linear/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fingerprint/fingerprint.h"
#include "kernels/finite_difference.h"
#include "kernels/sum/sum.h"

namespace samestep {
namespace {

std::vector<nlohmann::json> Vectors(const std::string& name) {
  std::ifstream file(SAMESTEP_TEST_DATA "/numerics_vectors.json");
  std::vector<nlohmann::json> vectors;
  for (const auto& v : nlohmann::json::parse(file)) {
    if (v["case"] == name) vectors.push_back(v);
  }
  return vectors;
}

// The oracle's inputs: bit 31 is the sign, bits 0 to 22 the significand, bits 32 up choose an exponent.
Tensor Operand(uint64_t seed, const Shape& shape) {
  Tensor tensor = Tensor::Empty(shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const uint64_t r = SplitMix((seed << 32) + static_cast<uint64_t>(i));
    const uint64_t exponent = 127 - 8 + (r >> 32) % 17;
    tensor.f32()[i] = std::bit_cast<float>(static_cast<uint32_t>((r & 0x807FFFFF) | exponent << 23));
  }
  return tensor;
}

Tensor Transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor transposed = Tensor::Empty({columns, rows});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) transposed.f32()[c * rows + r] = matrix.f32()[r * columns + c];
  }
  return transposed;
}

Tensor ColumnsReversed(const Tensor& matrix) {
  Tensor reversed = Tensor::Empty(matrix.shape());
  const int64_t columns = matrix.shape().back();
  for (int64_t i = 0; i < matrix.elements(); ++i) {
    reversed.f32()[i] = matrix.f32()[i - i % columns + (columns - 1 - i % columns)];
  }
  return reversed;
}

std::string Hex(const Tensor& tensor) { return FingerprintOf(tensor.view()).hex(); }

std::string ForwardHex(const Tensor& src, const Tensor& weights, int lanes) {
  const Tensor dst = Tensor::Empty({src.shape()[0], weights.shape()[0]});
  LinearForward(src.view(), weights.view(), {}, dst.view(), lanes);
  return Hex(dst);
}

std::string BackwardDataHex(const Tensor& diff_dst, const Tensor& weights, int lanes) {
  const Tensor diff_src = Tensor::Empty({diff_dst.shape()[0], weights.shape()[1]});
  LinearBackwardData(std::array{LinearFanIn{diff_dst.view(), weights.view()}}, diff_src.view(), lanes);
  return Hex(diff_src);
}

struct LinearCase {
  explicit LinearCase(const nlohmann::json& v)
      : src(Operand(v["seeds"][0], {v["rows"], v["inputs"]})),
        weights(Operand(v["seeds"][1], {v["outputs"], v["inputs"]})),
        inputs(v["inputs"]),
        lanes(v["tensor_lanes"]),
        fingerprint(v["fingerprint"]) {}
  Tensor src, weights;
  int64_t inputs;
  int lanes;
  std::string fingerprint;
};

TEST(LinearTest, ForwardHasTheOraclesBits) {
  const auto vectors = Vectors("linear");
  ASSERT_EQ(vectors.size(), 8u);
  for (const auto& v : vectors) {
    const LinearCase c(v);
    EXPECT_EQ(ForwardHex(c.src, c.weights, c.lanes), c.fingerprint) << v;
  }
}

TEST(LinearTest, BackwardDataHasTheOraclesBits) {
  for (const auto& v : Vectors("linear")) {
    const LinearCase c(v);
    EXPECT_EQ(BackwardDataHex(c.src, Transposed(c.weights), c.lanes), c.fingerprint) << v;
  }
}

// Negative control: these inputs tell another order, and another cut into blocks or lanes.
TEST(LinearTest, AnotherOrderHasOtherBits) {
  int checked = 0;
  for (const auto& v : Vectors("linear")) {
    const LinearCase c(v);
    if (c.inputs < 2) continue;
    EXPECT_NE(ForwardHex(ColumnsReversed(c.src), ColumnsReversed(c.weights), c.lanes), c.fingerprint) << v;
    const int other_lanes = c.lanes > 1 ? c.lanes / 2 : c.inputs % 2 == 0 ? 2 : c.inputs % 5 == 0 ? 5 : 1;
    if (other_lanes == c.lanes) continue;
    EXPECT_NE(ForwardHex(c.src, c.weights, other_lanes), c.fingerprint) << v;
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

// A chain that does not start anew after 256 terms, or starts anew after another number of them.
TEST(LinearTest, AnotherBlockSizeHasOtherBits) {
  for (const auto& v : Vectors("linear")) {
    const LinearCase c(v);
    if (c.inputs != 700) continue;
    for (const int64_t block : {700, 255, 257, 128, 256}) {
      Tensor dst = Tensor::Empty({c.src.shape()[0], c.weights.shape()[0]});
      for (int64_t r = 0; r < dst.shape()[0]; ++r) {
        for (int64_t o = 0; o < dst.shape()[1]; ++o) {
          float sum = 0;
          for (int64_t first = 0; first < c.inputs; first += block) {
            float chain = 0;
            for (int64_t k = first; k < std::min(first + block, c.inputs); ++k) {
              chain = std::fma(c.src.f32()[r * c.inputs + k], c.weights.f32()[o * c.inputs + k], chain);
            }
            sum = first == 0 ? chain : sum + chain;
          }
          dst.f32()[r * dst.shape()[1] + o] = sum;
        }
      }
      if (block == 256) {
        EXPECT_EQ(Hex(dst), c.fingerprint);
      } else {
        EXPECT_NE(Hex(dst), c.fingerprint) << block;
      }
    }
  }
}

// Calls `add(first_row, rows, lane accumulators, order)` for each micro-batch of `micro` samples of each data
// lane, then adds the accumulators up: token lanes first, then data lanes.
template <typename Function>
Tensor SumOverDataLanes(const nlohmann::json& v, int64_t micro, const Shape& result, const Function& add) {
  const int64_t samples = v["samples"], tokens = v["tokens"], data_lanes = v["data_lanes"];
  const int token_lanes = v["token_lanes"];
  const auto behind = [&](int64_t extent) {
    Shape shape{extent};
    for (int i = 0; i < result.rank(); ++i) shape.Append(result[i]);
    return shape;
  };
  const Tensor lanes = Tensor::Empty(behind(data_lanes));
  Tensor sum = Tensor::Empty(result);
  for (int64_t lane = 0; lane < data_lanes; ++lane) {
    const Tensor accumulators = Tensor::Empty(behind(token_lanes));
    TokenSum order{.tokens = tokens, .token_lanes = token_lanes};
    for (int64_t s = 0; s < samples / data_lanes; s += micro) {
      const int64_t rows = std::min(micro, samples / data_lanes - s) * tokens;
      add((lane * samples / data_lanes + s) * tokens, rows, accumulators.view(), order);
      order.lanes_set = LanesSetAfter(order, rows);
    }
    SumTree(accumulators.view(), lanes.view().Slice(lane, 1));
  }
  SumTree(lanes.view(), sum.view());
  return sum;
}

TEST(LinearTest, BackwardWeightsHasTheOraclesBits) {
  const auto vectors = Vectors("weight gradient");
  ASSERT_EQ(vectors.size(), 6u);
  for (const auto& v : vectors) {
    const int64_t rows = v["samples"].get<int64_t>() * v["tokens"].get<int64_t>();
    const int64_t outputs = v["outputs"], inputs = v["inputs"];
    const Tensor diff_dst = Operand(v["seeds"][0], {rows, outputs});
    const Tensor src = Operand(v["seeds"][1], {rows, inputs});
    for (const int64_t micro : {1, 2, 3, 100}) {
      const Tensor sum = SumOverDataLanes(
          v, micro, {outputs, inputs},
          [&](int64_t row, int64_t count, const TensorView& accumulators, const TokenSum& order) {
            LinearBackwardWeights(src.view().Slice(row, count), diff_dst.view().Slice(row, count),
                                  accumulators, order);
          });
      EXPECT_EQ(Hex(sum), v["fingerprint"].get<std::string>()) << v << " micro-batches of " << micro;
    }
  }
}

// The bias gradient is the weight gradient of an input of ones.
TEST(LinearTest, BiasBackwardIsTheWeightGradientOfOnes) {
  for (const auto& v : Vectors("weight gradient")) {
    const int64_t rows = v["samples"].get<int64_t>() * v["tokens"].get<int64_t>(), outputs = v["outputs"];
    const Tensor diff_dst = Operand(v["seeds"][0], {rows, outputs});
    const Tensor ones = Tensor::Empty({rows, 1});
    std::fill_n(ones.f32(), rows, 1.0f);
    const Tensor weights = SumOverDataLanes(
        v, 1, {outputs, 1},
        [&](int64_t row, int64_t count, const TensorView& accumulators, const TokenSum& order) {
          LinearBackwardWeights(ones.view().Slice(row, count), diff_dst.view().Slice(row, count),
                                accumulators, order);
        });
    const Tensor bias = SumOverDataLanes(
        v, 2, {outputs},
        [&](int64_t row, int64_t count, const TensorView& accumulators, const TokenSum& order) {
          BiasBackward(diff_dst.view().Slice(row, count), accumulators, order);
        });
    for (int64_t o = 0; o < outputs; ++o) EXPECT_EQ(bias.f32()[o], weights.f32()[o]);
  }
}

// A lane continues its sum through the linears: as if the outputs of its slices stood behind one another, as
// long as they are whole blocks.
TEST(LinearTest, FanInContinuesEachLane) {
  constexpr int64_t kRows = 3, kInputs = 5, kLane = 512;
  const Tensor diff0 = Operand(301, {kRows, 2 * kLane}), diff1 = Operand(302, {kRows, 2 * kLane});
  const Tensor weights0 = Operand(303, {2 * kLane, kInputs}), weights1 = Operand(304, {2 * kLane, kInputs});
  const Tensor fused = Tensor::Empty({kRows, kInputs}), joined = Tensor::Empty({kRows, kInputs});
  LinearBackwardData(
      std::array{LinearFanIn{diff0.view(), weights0.view()}, LinearFanIn{diff1.view(), weights1.view()}},
      fused.view(), 2);
  const Tensor diff = Tensor::Empty({kRows, 4 * kLane}), weights = Tensor::Empty({4 * kLane, kInputs});
  for (int64_t lane = 0; lane < 2; ++lane) {
    for (int64_t o = 0; o < kLane; ++o) {
      const int64_t from = lane * kLane + o, to = 2 * lane * kLane + o;
      for (int64_t r = 0; r < kRows; ++r) {
        diff.f32()[r * 4 * kLane + to] = diff0.f32()[r * 2 * kLane + from];
        diff.f32()[r * 4 * kLane + to + kLane] = diff1.f32()[r * 2 * kLane + from];
      }
      std::copy_n(weights0.f32() + from * kInputs, kInputs, weights.f32() + to * kInputs);
      std::copy_n(weights1.f32() + from * kInputs, kInputs, weights.f32() + (to + kLane) * kInputs);
    }
  }
  LinearBackwardData(std::array{LinearFanIn{diff.view(), weights.view()}}, joined.view(), 2);
  EXPECT_EQ(Hex(fused), Hex(joined));
  // In the other order the bits differ.
  LinearBackwardData(
      std::array{LinearFanIn{diff1.view(), weights1.view()}, LinearFanIn{diff0.view(), weights0.view()}},
      joined.view(), 2);
  EXPECT_NE(Hex(fused), Hex(joined));
}

// An empty lane is +0 and takes part in the tree: -0 + +0 = +0.
TEST(LinearTest, EmptyLaneTakesPartInTheTree) {
  const Tensor diff_dst = Tensor::Empty({1, 1}), weights = Tensor::Empty({1, 1});
  const Tensor diff_src = Tensor::Empty({1, 1});
  diff_dst.f32()[0] = -0x1p-100f;  // the product underflows to -0
  weights.f32()[0] = 0x1p-100f;
  const auto run = [&](int lanes, int64_t lane_size) {
    LinearBackwardData(std::array{LinearFanIn{diff_dst.view(), weights.view()}}, diff_src.view(), lanes,
                       lane_size);
    return std::bit_cast<uint32_t>(diff_src.f32()[0]);
  };
  EXPECT_EQ(run(1, 0), 0x80000000u);
  EXPECT_EQ(run(2, 1), 0u);
}

TEST(LinearTest, GradientsAreThoseOfTheForwardPass) {
  constexpr int64_t kRows = 6, kInputs = 5, kOutputs = 4;
  constexpr int64_t kSrc = kRows * kInputs, kWeights = kOutputs * kInputs;
  std::vector<double> x;
  for (int64_t i = 0; i < kSrc + kWeights + kOutputs; ++i) {
    x.push_back(static_cast<float>(std::sin(static_cast<double>(3 * i + 1))));
  }
  const Tensor cotangent = Operand(7, {kRows, kOutputs});
  for (int64_t i = 0; i < cotangent.elements(); ++i) cotangent.f32()[i] = std::fmod(cotangent.f32()[i], 1.0f);
  // Loss: the sum of cotangent * (X W^T + b), in binary64.
  const ScalarFunction loss = [&](const std::vector<double>& at) {
    double sum = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < kOutputs; ++o) {
        double y = at[kSrc + kWeights + o];
        for (int64_t i = 0; i < kInputs; ++i) y += at[r * kInputs + i] * at[kSrc + o * kInputs + i];
        sum += cotangent.f32()[r * kOutputs + o] * y;
      }
    }
    return sum;
  };
  const std::vector<double> expected = FiniteDifference(loss, x);
  const std::vector<float> values(x.begin(), x.end());
  const TensorView src = ViewOf(const_cast<float*>(values.data()), {kRows, kInputs});
  const TensorView weights = ViewOf(const_cast<float*>(values.data()) + kSrc, {kOutputs, kInputs});
  std::vector<float> gradient(x.size());
  LinearBackwardData(std::array{LinearFanIn{cotangent.view(), weights}},
                     ViewOf(gradient.data(), {kRows, kInputs}), 2);
  const TokenSum order{.tokens = 3};
  LinearBackwardWeights(src, cotangent.view(), ViewOf(gradient.data() + kSrc, {kOutputs, kInputs}), order);
  BiasBackward(cotangent.view(), ViewOf(gradient.data() + kSrc + kWeights, {kOutputs}), order);
  EXPECT_LT(GradientError(expected, gradient.data()), 1e-6);
}

// Rows [first, first + count) of a matrix of its own: a copy, as a process would hold it.
Tensor RowsOf(const Tensor& matrix, int64_t first, int64_t count) {
  Tensor part = Tensor::Empty({count, matrix.shape()[1]});
  std::copy_n(matrix.f32() + first * matrix.shape()[1], part.elements(), part.f32());
  return part;
}

Tensor ColumnsOf(const Tensor& matrix, int64_t first, int64_t count) {
  return Transposed(RowsOf(Transposed(matrix), first, count));
}

// The sum of `shards` partial sums in the order of tensor parallelism.
Tensor TreeOf(const std::vector<Tensor>& partials) {
  const Shape shape = partials[0].shape();
  Tensor all = Tensor::Empty({static_cast<int64_t>(partials.size()), shape[0], shape[1]});
  Tensor sum = Tensor::Empty(shape);
  for (size_t i = 0; i < partials.size(); ++i) {
    std::copy_n(partials[i].f32(), sum.elements(), all.f32() + static_cast<int64_t>(i) * sum.elements());
  }
  SumTree(all.view(), sum.view());
  return sum;
}

// Each of two processes makes the tree over its half of the lanes; then sum.tree, then sum.bias.
TEST(LinearTest, ForwardOfShardsIsTheUnsplitOne) {
  constexpr int64_t kRows = 5, kInputs = 8 * 300, kOutputs = 19;
  const Tensor src = Operand(401, {kRows, kInputs}), weights = Operand(402, {kOutputs, kInputs});
  const Tensor bias = Operand(403, {kOutputs}), whole = Tensor::Empty({kRows, kOutputs});
  for (const int lanes : {4, 8}) {
    LinearForward(src.view(), weights.view(), bias.view(), whole.view(), lanes);
    const auto split = [&](int shards) {
      std::vector<Tensor> partials;
      for (int shard = 0; shard < shards; ++shard) {
        const int64_t inputs = kInputs / shards, first = shard * inputs;
        partials.push_back(Tensor::Empty({kRows, kOutputs}));
        LinearForward(ColumnsOf(src, first, inputs).view(), ColumnsOf(weights, first, inputs).view(), {},
                      partials.back().view(), std::max(1, lanes / shards));
      }
      Tensor sum = TreeOf(partials);
      AddBias(sum.view(), bias.view(), sum.view());
      return Hex(sum);
    };
    EXPECT_EQ(split(1), Hex(whole));
    EXPECT_EQ(split(2), Hex(whole));
    EXPECT_EQ(split(4), Hex(whole));
    EXPECT_NE(split(3), Hex(whole)) << "negative control: these are no subtrees";
  }
}

TEST(LinearTest, BackwardDataOfShardsIsTheUnsplitOne) {
  constexpr int64_t kRows = 3, kInputs = 7, kOutputs = 8 * 300;
  const Tensor diff0 = Operand(411, {kRows, kOutputs}), diff1 = Operand(412, {kRows, kOutputs / 2});
  const Tensor weights0 = Operand(413, {kOutputs, kInputs}), weights1 = Operand(414, {kOutputs / 2, kInputs});
  const Tensor whole = Tensor::Empty({kRows, kInputs});
  for (const int lanes : {4, 8}) {
    LinearBackwardData(
        std::array{LinearFanIn{diff0.view(), weights0.view()}, LinearFanIn{diff1.view(), weights1.view()}},
        whole.view(), lanes);
    for (const int shards : {2, 4}) {
      std::vector<Tensor> partials;
      for (int shard = 0; shard < shards; ++shard) {
        const int64_t n0 = kOutputs / shards, n1 = n0 / 2;
        const Tensor d0 = ColumnsOf(diff0, shard * n0, n0), d1 = ColumnsOf(diff1, shard * n1, n1);
        const Tensor w0 = RowsOf(weights0, shard * n0, n0), w1 = RowsOf(weights1, shard * n1, n1);
        partials.push_back(Tensor::Empty({kRows, kInputs}));
        LinearBackwardData(std::array{LinearFanIn{d0.view(), w0.view()}, LinearFanIn{d1.view(), w1.view()}},
                           partials.back().view(), lanes / shards);
      }
      EXPECT_EQ(Hex(TreeOf(partials)), Hex(whole)) << lanes << " lanes, " << shards << " shards";
    }
  }
}

// The padded vocabulary: a shard holds real columns only, the last ones few or none.
TEST(LinearTest, BackwardDataOfShardsOfAPaddedVocabulary) {
  constexpr int64_t kRows = 3, kInputs = 7;
  for (const int64_t vocabulary : {2000, 1100, 600}) {
    const Tensor diff = Operand(421, {kRows, vocabulary}), weights = Operand(422, {vocabulary, kInputs});
    const Tensor whole = Tensor::Empty({kRows, kInputs});
    for (const int lanes : {4, 8}) {
      const int64_t lane_size = 2400 / lanes;
      LinearBackwardData(std::array{LinearFanIn{diff.view(), weights.view()}}, whole.view(), lanes,
                         lane_size);
      for (const int shards : {2, 4}) {
        std::vector<Tensor> partials;
        for (int shard = 0; shard < shards; ++shard) {
          const int64_t first = std::min<int64_t>(vocabulary, shard * 2400 / shards);
          const int64_t count = std::min<int64_t>(vocabulary, (shard + 1) * 2400 / shards) - first;
          const Tensor d = ColumnsOf(diff, first, count), w = RowsOf(weights, first, count);
          partials.push_back(Tensor::Empty({kRows, kInputs}));
          LinearBackwardData(std::array{LinearFanIn{d.view(), w.view()}}, partials.back().view(),
                             lanes / shards, lane_size);
        }
        EXPECT_EQ(Hex(TreeOf(partials)), Hex(whole)) << vocabulary << ", " << lanes << ", " << shards;
      }
    }
  }
}

}  // namespace
}  // namespace samestep
