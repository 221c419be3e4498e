#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "data/numpy_random.h"

namespace samestep {
namespace {

using Json = nlohmann::json;

const Json& Vectors() {
  static const Json* vectors =
      new Json(Json::parse(ReadFile(SAMESTEP_TEST_DATA "/megatron_order.json").value()));
  return *vectors;
}

class Fnv {
 public:
  void Add(int64_t value) { digest_ = (digest_ ^ static_cast<uint64_t>(value)) * 0x100000001B3u; }
  std::string Hex() const { return fmt::format("{:016x}", digest_); }

 private:
  uint64_t digest_ = 0xCBF29CE484222325u;
};

template <typename T>
std::string FnvOf(const std::vector<T>& values) {
  Fnv fnv;
  for (const T value : values) fnv.Add(value);
  return fnv.Hex();
}

// As in make_megatron_order.py.
std::vector<int32_t> Lengths(int kind, int64_t n) {
  std::vector<int32_t> lengths;
  int64_t x = kind * 7919 + 1;
  for (int64_t i = 0; i < n; ++i) {
    x = (x * 1103515245 + 12345) % (int64_t{1} << 31);
    lengths.push_back(static_cast<int32_t>((x >> 8) % (kind == 1 ? 4 : 300)));
  }
  return lengths;
}

// The tokens of the first 50 samples, each numbered by its place in the data set.
std::string FirstTokens(const SampleOrder& order, const std::vector<int32_t>& lengths,
                        int64_t sequence_length) {
  std::vector<int64_t> starts = {0};
  for (const int32_t length : lengths) starts.push_back(starts.back() + length);
  Fnv fnv;
  for (int64_t k = 0; k < std::min<int64_t>(50, order.samples()); ++k) {
    auto [position, offset] = order.Locate([&](int64_t i) { return lengths[i]; }, k);
    for (int64_t left = sequence_length + 1; left > 0; ++position, offset = 0) {
      const int64_t document = order.document_index()[position];
      for (; offset < lengths[document] && left > 0; ++offset, --left) fnv.Add(starts[document] + offset);
    }
  }
  return fnv.Hex();
}

TEST(NumpyRandom, ShufflesAsNumpy) {
  NumpyRandomState random(1234);
  std::vector<int32_t> first(20);
  std::vector<int32_t> second(10);
  for (int i = 0; i < 20; ++i) first[i] = i;
  for (int i = 0; i < 10; ++i) second[i] = i;
  random.Shuffle(std::span<int32_t>(first));
  random.Shuffle(std::span<int32_t>(second));
  EXPECT_EQ(Json(first), Vectors()["shuffles"][0]);
  EXPECT_EQ(Json(second), Vectors()["shuffles"][1]);
}

TEST(NumpyRandom, DrawsInRange) {
  NumpyRandomState random(7);
  EXPECT_EQ(random.Interval(0), 0u);
  for (const uint64_t max :
       {uint64_t{1}, uint64_t{5}, uint64_t{0xFFFFFFFF}, uint64_t{0x100000000}, ~uint64_t{0}}) {
    for (int i = 0; i < 100; ++i) EXPECT_LE(random.Interval(max), max);
  }
}

TEST(SampleOrder, SplitsAsMegatron) {
  for (const Json& c : Vectors()["splits"]) {
    const auto bounds = SplitBounds(c["weights"].get<std::array<double, 3>>(), c["n"]);
    EXPECT_EQ(Json(bounds), c["bounds"]) << c["weights"] << " of " << c["n"];
  }
}

TEST(SampleOrder, OrdersAsMegatron) {
  for (const Json& c : Vectors()["orders"]) {
    SCOPED_TRACE(c.dump());
    const std::vector<int32_t> lengths = Lengths(c["kind"], c["n"]);
    const SampleOrder::LengthOf length_of = [&](int64_t i) { return lengths[i]; };
    const SampleOrder order = SampleOrder::Make(length_of,
                                                {.first = c["first"],
                                                 .last = c["last"],
                                                 .samples = c["needed"],
                                                 .sequence_length = c["sequence"],
                                                 .seed = c["seed"]},
                                                "test")
                                  .value();
    EXPECT_EQ(Json(order.epochs()), c["epochs"]);
    EXPECT_EQ(order.separate_final_epoch(), c["separate"].get<bool>());
    EXPECT_EQ(Json(order.samples()), c["samples"]);
    EXPECT_EQ(Json(FnvOf(order.document_index())), c["documents"]);
    EXPECT_EQ(Json(FnvOf(order.shuffle_index())), c["shuffle"]);
    std::vector<int64_t> rows;
    for (int64_t j = 0; j <= order.samples(); ++j) {
      const SampleOrder::Start start = order.LocateUnshuffled(length_of, j);
      rows.push_back(start.position);
      rows.push_back(start.offset);
    }
    EXPECT_EQ(Json(FnvOf(rows)), c["rows"]);
    EXPECT_EQ(Json(FirstTokens(order, lengths, c["sequence"])), c["tokens"]);
  }
}

TEST(SampleOrder, BlendsAsMegatron) {
  for (const Json& c : Vectors()["blends"]) {
    std::vector<double> weights = NormalizeWeights(c["weights"]);
    EXPECT_EQ(weights, c["normalized"].get<std::vector<double>>());  // bit for bit
    int64_t size = 0;
    const std::vector<BlendShare> shares = BlendShares(weights, c["samples"]);
    for (size_t i = 0; i < shares.size(); ++i) {
      EXPECT_EQ(Json(shares[i].wanted), c["wanted"][i]);
      EXPECT_EQ(Json(shares[i].built), c["built"][i]);
      size += shares[i].wanted;
    }
    EXPECT_EQ(Json(size), c["size"]);
    EXPECT_EQ(Json(FnvOf(BlendOrder(NormalizeWeights(weights), size))), c["order"]);
  }
}

TEST(SampleOrder, AnotherSeedIsAnotherOrder) {
  const std::vector<int32_t> lengths = Lengths(0, 50);
  const auto make = [&](uint32_t seed) {
    return SampleOrder::Make([&](int64_t i) { return lengths[i]; },
                             {.first = 0, .last = 50, .samples = 100, .sequence_length = 16, .seed = seed},
                             "test")
        .value()
        .shuffle_index();
  };
  EXPECT_EQ(make(1), make(1));
  EXPECT_NE(make(1), make(2));
}

TEST(SampleOrder, TooLittleTextIsRefused) {
  for (const int32_t length : {0, 1, 16}) {
    const Result<SampleOrder> order =
        SampleOrder::Make([&](int64_t) { return length; },
                          {.first = 0, .last = 1, .samples = 100, .sequence_length = 16}, "a.bin");
    ASSERT_FALSE(order.ok());
    EXPECT_NE(order.status().message().find("one sample takes 17"), std::string::npos)
        << order.status().message();
  }
  EXPECT_TRUE(SampleOrder::Make([](int64_t) { return 17; },
                                {.first = 0, .last = 1, .samples = 100, .sequence_length = 16}, "a.bin")
                  .ok());
}

TEST(SampleOrder, SplitTextIsChecked) {
  EXPECT_EQ(ParseSplit("99,1,0").value(), (std::array<double, 3>{99, 1, 0}));
  EXPECT_EQ(ParseSplit("0.9,.1").value(), (std::array<double, 3>{0.9, 0.1, 0}));
  EXPECT_EQ(ParseSplit("1").value(), (std::array<double, 3>{1, 0, 0}));
  for (const char* text :
       {"", "99,1,0,0", "99,-1", "a", "99;1", "0,0,0", "1e400", "inf", "nan", "99,,1", "99, 1"}) {
    EXPECT_EQ(ParseSplit(text).status().code(), StatusCode::kUsage) << text;
  }
}

}  // namespace
}  // namespace samestep
