// Three tiny models against an independent slow implementation of the numerics page, every value bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/parallel_for.h"
#include "kernels/registry.h"
#include "numerics/simd_target.h"
#include "train/trainer.h"

namespace samestep {
namespace {

using nlohmann::json;

const json& Vectors() {
  static const json vectors =
      json::parse(std::ifstream(std::string(SAMESTEP_TEST_DATA) + "/model_vectors.json"));
  return vectors;
}

Decimal D(const json& text) { return Decimal::Parse(text.get<std::string>()).value(); }

TrainerConfig ConfigOf(const json& r, int64_t micro_batch) {
  TrainerConfig c;
  c.model.family = r["family"] == "llama" ? DecoderFamily::kLlama : DecoderFamily::kGpt2;
  c.model.mlp = r["activation"] == "SwiGLU" ? MlpKind::kSwiglu : MlpKind::kGeluTanh;
  for (auto [field, name] :
       std::initializer_list<std::pair<int64_t*, const char*>>{{&c.model.vocab, "vocab"},
                                                               {&c.model.vocab_padded, "vocab_padded"},
                                                               {&c.model.hidden, "hidden"},
                                                               {&c.model.layers, "layers"},
                                                               {&c.model.heads, "heads"},
                                                               {&c.model.kv_heads, "kv_heads"},
                                                               {&c.model.head_size, "head_size"},
                                                               {&c.model.intermediate, "intermediate"},
                                                               {&c.model.sequence, "sequence"},
                                                               {&c.global_batch, "global_batch"}}) {
    *field = r[name].get<int64_t>();
  }
  c.model.norm_eps = D(r["norm_eps"]).ToFloat();
  c.model.rope_base = Decimal::Of(10000);
  c.model.tied_output = r["tied_output"];
  c.model.linear_biases = r["linear_biases"];
  c.model.init_std = Decimal::Parse("0.02").value().ToFloat();
  c.model.data_lanes = r["data_lanes"];
  c.model.tensor_lanes = r["tensor_lanes"];
  c.model.context_lanes = r["context_lanes"];
  c.optimizer = {D(r["beta1"]), D(r["beta2"]), D(r["eps"]), D(r["weight_decay"]), D(r["max_norm"])};
  c.schedule.lr = D(r["lr"]);
  c.schedule.min_lr = D(r["lr"]);
  c.schedule.steps = 3;
  c.seed = r["seed"];
  c.micro_batch = micro_batch;
  return c;
}

TokenReader ReaderOf(const TrainerConfig& c) {
  return [c](int64_t sample, std::span<int32_t> tokens) {
    const uint64_t s1 = static_cast<uint64_t>(sample);  // (step - 1) * 4 + n
    for (size_t p = 0; p < tokens.size(); ++p) {
      tokens[p] =
          static_cast<int32_t>(SplitMix((c.seed << 40) + s1 * 25 + p) % static_cast<uint64_t>(c.model.vocab));
    }
    return Status();
  };
}

// Collects the intermediate tensors of step 1 under the names of the vectors; shards are added up.
class Collector : public CallObserver {
 public:
  void AfterCall(const Call& call) override {
    const CallContext& context = CallContext::Current();
    if (context.iteration != 1 || context.phase == Phase::kRecompute) return;
    for (int i = 0; i < call.argument_count(); ++i) {
      if (call.argument(i).access == Access::kRead || !call.view(i).present()) continue;
      const std::string name =
          NameOf(context.module, call.kernel().name, call.kernel().arguments[size_t(i)].role);
      if (!name.empty()) sums[name] += FingerprintOf(call.view(i));
    }
  }
  std::map<std::string, Fingerprint> sums;

 private:
  static std::string NameOf(const std::string& module, const std::string& kernel, const std::string& role) {
    if (kernel == "linear.forward" && module == "lm_head") return "logits";
    if (kernel.starts_with("cross_entropy") && role == "logits") return "d_logits";
    if (kernel == "embedding.forward") return "embedding";
    const bool final_norm = module == "model.norm" || module == "transformer.ln_f";
    if (final_norm) return kernel.ends_with("norm.forward") && role == "dst" ? "final_norm" : "";
    const size_t at = module.find_first_of("0123456789");
    if (at == std::string::npos) return "";
    const std::string index = module.substr(at, module.find('.', at) - at);
    const size_t dot = module.find('.', at);
    const std::string rest = dot == std::string::npos ? "" : module.substr(dot + 1);
    const std::string block = "block." + index;
    const bool first_norm = rest == "input_layernorm" || rest == "ln_1";
    const bool second_norm = rest == "post_attention_layernorm" || rest == "ln_2";
    if (kernel.ends_with("norm.forward") && role == "dst") return block + (first_norm ? ".norm1" : ".norm2");
    if (kernel.ends_with("norm.backward") && role == "diff_src") {
      if (second_norm) return "d_" + block + ".middle";
      return index == "0" ? "d_embedding" : "d_block." + std::to_string(std::stoi(index) - 1);
    }
    if (kernel == "attention.forward") {
      return role == "dst" ? block + ".attention" : role == "row_max" ? block + ".m" : block + ".l";
    }
    if (kernel == "attention.backward" && role == "diff_v") return "d_" + block + ".v";
    if ((kernel == "swiglu.forward" || kernel == "gelu_tanh.forward") && role == "dst")
      return block + ".activation";
    return "";
  }
};

struct Variant {
  std::string recipe;
  int64_t micro_batch;
  bool reference, recompute;
  int threads;
};

class ModelVectors : public testing::TestWithParam<Variant> {};

TEST_P(ModelVectors, MatchBitForBit) {
  const Variant& variant = GetParam();
  const json& entry = *std::find_if(Vectors()["recipes"].begin(), Vectors()["recipes"].end(),
                                    [&](const json& r) { return r["name"] == variant.recipe; });
  TrainerConfig config = ConfigOf(entry["recipe"], variant.micro_batch);
  config.model.recompute_layers = variant.recompute;
  SetSchedule({variant.threads, 0});
  SetPoisonEmptyTensors(true);
  CallContext::Current().use_reference = variant.reference;
  Collector collector;
  CallContext::Current().AddObserver(&collector);

  Trainer trainer(config, ReaderOf(config));
  trainer.Initialize();
  ParameterSet& parameters = trainer.model().parameters();
  EXPECT_EQ(parameters.InOrder().size(), entry["initial_parameters"].size());
  for (const Parameter* p : parameters.InOrder()) {
    EXPECT_EQ(FingerprintOf(p->weights.view()).hex(), entry["initial_parameters"][p->name]["fingerprint"])
        << p->name;
  }
  for (const json& step : entry["steps"]) {
    const Result<StepReport> report = trainer.Step();
    ASSERT_TRUE(report.ok()) << report.status().message();
    if (step["step"] == 1) {
      for (const Parameter* p : parameters.InOrder()) {
        EXPECT_EQ(FingerprintOf(p->gradient).hex(), entry["gradients_of_step_1"][p->name]["fingerprint"])
            << p->name;
      }
      int compared = 0;
      for (const auto& [name, sum] : collector.sums) {
        const json& all = entry["activations_of_step_1"];
        if (!all.contains(name)) continue;
        EXPECT_EQ(sum.hex(), all[name]["fingerprint"]) << name;
        ++compared;
      }
      EXPECT_GE(compared, 20);
    }
    EXPECT_EQ(fmt::format("{:016x}", std::bit_cast<uint64_t>(report->loss)), step["loss"]);
    EXPECT_EQ(fmt::format("{:016x}", std::bit_cast<uint64_t>(report->norm)), step["norm"]);
    EXPECT_EQ(report->consumed_samples, step["consumed_samples"]);
    for (const Parameter* p : parameters.InOrder()) {
      EXPECT_EQ(FingerprintOf(p->weights.view()).hex(), step["parameters"][p->name]["fingerprint"])
          << p->name;
    }
    EXPECT_EQ(report->digest.hex(), step["digest"]);
  }
  CallContext::Current().RemoveObserver(&collector);
  CallContext::Current().use_reference = false;
  SetPoisonEmptyTensors(false);
  SetSchedule({});
}

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (const char* recipe : {"R1", "R2", "R3"}) {
    for (int64_t micro_batch : {1, 2, 3, 4}) {
      variants.push_back({recipe, micro_batch, false, micro_batch % 2 == 0, static_cast<int>(micro_batch)});
    }
    variants.push_back({recipe, 4, true, false, 1});
  }
  return variants;
}

INSTANTIATE_TEST_SUITE_P(Oracle, ModelVectors, testing::ValuesIn(Variants()), [](const auto& test) {
  const Variant& v = test.param;
  return fmt::format("{}_micro{}_{}{}", v.recipe, v.micro_batch, v.reference ? "reference" : "fast",
                     v.recompute ? "_recompute" : "");
});

}  // namespace
}  // namespace samestep
