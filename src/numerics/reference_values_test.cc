// The sums, the exact sums and the initial weights against values from independent programs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "numerics/elementary_oracle.h"
#include "numerics/exact_sum.h"
#include "numerics/philox.h"
#include "numerics/sums.h"

namespace samestep {
namespace {

using Json = nlohmann::json;

uint64_t SplitMix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The fingerprint of binary32 values, word by word as its page defines it.
std::string Fingerprint(const std::vector<float>& values) {
  uint64_t a = 0, b = 0;
  for (uint64_t w = 0; w < values.size(); ++w) {
    const uint64_t key = SplitMix(w % 1024), block = w / 1024;
    a += Bits(values[w]) * ((key & 0xFFFFFFFF) | 1) * (SplitMix(block ^ 0x1234567800000000) | 1);
    b += Bits(values[w]) * ((key >> 32) | 1) * (SplitMix(block ^ 0x8765432100000000) | 1);
  }
  return fmt::format("{:016x}{:016x}", a, b);
}

std::vector<float> Operand(uint64_t seed, int64_t count, uint64_t spread = 8) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t r = SplitMix((seed << 32) + static_cast<uint64_t>(i));
    const uint64_t exponent = 127 - spread + (r >> 32) % (2 * spread + 1);
    values.push_back(FromBits(static_cast<uint32_t>((r & 0x807FFFFF) | exponent << 23)));
  }
  return values;
}

Json ReadJson(const std::string& name) {
  std::ifstream file(std::string(SAMESTEP_TEST_DATA) + "/" + name);
  return Json::parse(file);
}

// The outputs of one case, in row-major order.
std::vector<float> OutputsOf(const Json& c) {
  const auto number = [&](const char* name) { return c.at(name).get<int64_t>(); };
  const auto operand = [&](size_t which, int64_t count) {
    return Operand(c.at("seeds").at(which).get<uint64_t>(), count);
  };
  const std::string kind = c.at("case");
  std::vector<float> out;
  if (kind == "linear") {
    const int64_t rows = number("rows"), outputs = number("outputs"), inputs = number("inputs");
    const auto x = operand(0, rows * inputs), w = operand(1, outputs * inputs);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < outputs; ++o) {
        out.push_back(LaneSum({&x[r * inputs]}, {&w[o * inputs]}, inputs, number("tensor_lanes")));
      }
    }
  } else if (kind == "weight gradient") {
    const TokenShape shape = {number("samples"), number("tokens"), number("data_lanes"),
                              number("token_lanes")};
    const int64_t outputs = number("outputs"), inputs = number("inputs"),
                  tokens = shape.samples * shape.tokens;
    const auto dy = operand(0, tokens * outputs), x = operand(1, tokens * inputs);
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < inputs; ++i)
        out.push_back(SumOverTokens({&dy[o], outputs}, {&x[i], inputs}, shape));
    }
  } else if (kind == "routed weight gradient") {
    const TokenShape shape = {number("samples"), number("tokens"), number("data_lanes"), 1};
    const int64_t tokens = shape.samples * shape.tokens;
    const auto a = operand(0, tokens), b = operand(1, tokens);
    const uint64_t seed = c.at("seeds").at(0).get<uint64_t>() / 2;
    std::vector<uint8_t> routed;
    for (int64_t p = 0; p < tokens; ++p)
      routed.push_back(SplitMix((seed << 40) + static_cast<uint64_t>(p)) % 4 == 0);
    out.push_back(SumOverRoutedTokens({a.data()}, {b.data()}, shape, number("expert_lanes"), routed));
  } else if (kind == "row sum") {
    const auto x = operand(0, number("features"));
    out.push_back(RowSum({x.data()}, number("features")));
  } else if (kind == "row dot") {
    const auto x = operand(0, number("features")), y = operand(1, number("features"));
    out.push_back(RowDot({x.data()}, {y.data()}, number("features")));
  } else {
    ADD_FAILURE() << "unknown case " << kind;
  }
  return out;
}

TEST(ReferenceValues, Sums) {
  int checked = 0;
  for (const Json& c : ReadJson("numerics_vectors.json")) {
    if (c.at("case") == "exact sum") continue;
    EXPECT_EQ(Fingerprint(OutputsOf(c)), c.at("fingerprint").get<std::string>()) << c.dump();
    ++checked;
  }
  EXPECT_EQ(checked, 30);
}

TEST(ReferenceValues, ExactSums) {
  int checked = 0;
  for (const Json& c : ReadJson("numerics_vectors.json")) {
    if (c.at("case") != "exact sum") continue;
    ExactSum sum;
    sum.Add(Operand(c.at("seeds").at(0).get<uint64_t>(), c.at("addends").get<int64_t>(),
                    c.at("spread").get<uint64_t>()));
    EXPECT_EQ(fmt::format("{:016x}", std::bit_cast<uint64_t>(sum.Round())),
              c.at("binary64").get<std::string>());
    ++checked;
  }
  EXPECT_EQ(checked, 3);
}

// A chain of another order must not pass: one block of 512 terms in place of two of 256.
TEST(ReferenceValues, ControlAnotherBlockSize) {
  const auto x = Operand(1, 512), w = Operand(2, 512);
  EXPECT_NE(Fingerprint({Chain({x.data()}, {w.data()}, 512)}),
            Fingerprint({BlockedSum({x.data()}, {w.data()}, 512)}));
}

TEST(ReferenceValues, InitialWeights) {
  int checked = 0;
  const Json model = ReadJson("model_vectors.json");
  for (const Json& recipe : model.at("recipes")) {
    const uint64_t seed = recipe.at("recipe").at("seed").get<uint64_t>();
    for (const auto& [name, tensor] : recipe.at("initial_parameters").items()) {
      const auto shape = tensor.at("shape").get<std::vector<int64_t>>();
      if (shape.size() != 2) continue;
      std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
      InitNormal(values.data(), 0, shape[0] * shape[1], seed, StreamId("init", name), 0.02f);
      EXPECT_EQ(Fingerprint(values), tensor.at("fingerprint").get<std::string>()) << name;
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
}

}  // namespace
}  // namespace samestep
