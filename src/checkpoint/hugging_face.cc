#include "checkpoint/hugging_face.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "checkpoint/safetensors.h"

namespace samestep {
namespace {

using Json = nlohmann::ordered_json;

// GPT-2's Conv1D layers store [in, out].
bool IsTransposed(const DecoderConfig& config, const Parameter& p) {
  if (config.family != DecoderFamily::kGpt2 || p.shape.rank() != 2) return false;
  return p.name.ends_with("c_attn.weight") || p.name.ends_with("c_proj.weight") ||
         p.name.ends_with("c_fc.weight");
}

bool IsMaskBuffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

const char* Prefix(const DecoderConfig& config) {
  return config.family == DecoderFamily::kGpt2 ? "transformer." : "model.";
}

std::vector<uint64_t> StoredShape(const Parameter& p, bool transposed) {
  std::vector<uint64_t> shape;
  for (int i = 0; i < p.shape.rank(); ++i) shape.push_back(static_cast<uint64_t>(p.shape[i]));
  if (transposed) std::swap(shape[0], shape[1]);
  return shape;
}

Status ImportOne(const SafetensorsFile& file, const SafetensorsTensor& stored, const DecoderConfig& config,
                 Parameter& p) {
  const bool transposed = IsTransposed(config, p);
  const std::vector<uint64_t> shape = StoredShape(p, transposed);
  if (stored.type != SafetensorsType::kF32 || stored.shape != shape) {
    return InvalidError("{}: tensor {} is {} [{}], the recipe needs F32 [{}]", file.path(), stored.name,
                        SafetensorsTypeName(stored.type), fmt::join(stored.shape, ", "),
                        fmt::join(shape, ", "));
  }
  float* out = p.weights.f32();
  if (!transposed) {
    std::memcpy(out, stored.bytes.data(), stored.bytes.size());
    return {};
  }
  const int64_t rows = p.shape[0], columns = p.shape[1];  // ours; stored is [columns, rows]
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(out + r * columns + c, stored.bytes.data() + 4 * (c * rows + r), 4);
    }
  }
  return {};
}

SafetensorsOutput OutputOf(const DecoderConfig& config, const Parameter& p, const TensorView& values) {
  const bool transposed = IsTransposed(config, p);
  const float* data = values.f32();
  const int64_t rows = transposed ? values.shape[1] : 1;
  const int64_t columns = transposed ? values.shape[0] : values.elements();
  const auto produce = [=](const ByteSink& sink) -> Status {
    if (!transposed) return sink(std::as_bytes(std::span(data, static_cast<size_t>(columns))));
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) row[static_cast<size_t>(c)] = data[c * rows + r];
      SAMESTEP_RETURN_IF_ERROR(sink(std::as_bytes(std::span<const float>(row))));
    }
    return {};
  };
  return {p.name, SafetensorsType::kF32, StoredShape(p, transposed), produce};
}

Json LlamaConfig(const DecoderConfig& c, const Json& eps) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", c.vocab},
          {"hidden_size", c.hidden},
          {"intermediate_size", c.intermediate},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads},
          {"head_dim", c.head_size},
          {"hidden_act", "silu"},
          {"max_position_embeddings", c.sequence},
          {"rms_norm_eps", eps},
          {"rope_theta", c.rope_base.ToDouble()},
          {"attention_bias", c.linear_biases},
          {"mlp_bias", c.linear_biases},
          {"tie_word_embeddings", c.tied_output}};
}

Json Gpt2Config(const DecoderConfig& c, const Json& eps) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", c.vocab},
          {"n_positions", c.sequence},
          {"n_embd", c.hidden},
          {"n_layer", c.layers},
          {"n_head", c.heads},
          {"n_inner", c.intermediate},
          {"activation_function", c.mlp == MlpKind::kGelu ? "gelu" : "gelu_new"},
          {"layer_norm_epsilon", eps},
          {"attn_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"tie_word_embeddings", c.tied_output}};
}

// What Hugging Face's classes of these two families cannot express.
Status CheckExpressible(const DecoderConfig& c) {
  const bool llama = c.family == DecoderFamily::kLlama;
  if (llama && c.mlp != MlpKind::kSwiglu) {
    return UsageError(
        "model.activation must be \"swiglu\" to export a llama; transformers has no other form");
  }
  if (!llama && (c.mlp == MlpKind::kSwiglu || !c.linear_biases || c.heads != c.kv_heads ||
                 c.heads * c.head_size != c.hidden)) {
    return UsageError(
        "to export a gpt2, the recipe needs activation \"gelu\" or \"gelu_tanh\", linear_biases = true, "
        "kv_heads = heads "
        "and head_size = hidden / heads; transformers has no other form");
  }
  return {};
}

}  // namespace

Status ImportWeights(const std::string& path, const DecoderConfig& config, ParameterSet& parameters) {
  SAMESTEP_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  std::set<std::string> loaded;
  for (const SafetensorsTensor& stored : file.tensors()) {
    if (IsMaskBuffer(stored.name)) continue;
    if (config.tied_output && stored.name == "lm_head.weight") continue;  // the embedding again
    Parameter* p = parameters.Find(stored.name);
    if (p == nullptr) p = parameters.Find(Prefix(config) + stored.name);
    if (p == nullptr) {
      return InvalidError(
          "{}: tensor {} has no place in this recipe's model; check model.family and its sizes", path,
          stored.name);
    }
    SAMESTEP_RETURN_IF_ERROR(ImportOne(file, stored, config, *p));
    loaded.insert(p->name);
  }
  for (const Parameter* p : parameters.InOrder()) {
    if (!loaded.contains(p->name)) return InvalidError("{}: tensor {} is missing", path, p->name);
  }
  return {};
}

Status ExportTensors(const std::string& path, const DecoderConfig& config, const ParameterSet& parameters,
                     Tensors which) {
  std::vector<SafetensorsOutput> outputs;
  for (const Parameter* p : parameters.InOrder()) {
    outputs.push_back(OutputOf(config, *p, which == Tensors::kWeights ? p->weights.view() : p->gradient));
  }
  return WriteSafetensors(path, outputs, {{"format", "pt"}});
}

Status ExportModel(const std::string& folder, const DecoderConfig& config, const ParameterSet& parameters,
                   const std::string& norm_eps, int64_t eos) {
  SAMESTEP_RETURN_IF_ERROR(CheckExpressible(config));
  SAMESTEP_RETURN_IF_ERROR(MakeFolders(folder));
  const Json eps = Json::parse(norm_eps, nullptr, false);
  Json json = config.family == DecoderFamily::kLlama ? LlamaConfig(config, eps) : Gpt2Config(config, eps);
  json["torch_dtype"] = "float32";
  json["bos_token_id"] = nullptr;
  json["eos_token_id"] = eos < 0 ? Json(nullptr) : Json(eos);
  SAMESTEP_RETURN_IF_ERROR(
      ExportTensors(JoinPath(folder, "model.safetensors"), config, parameters, Tensors::kWeights));
  return WriteFileAtomically(JoinPath(folder, "config.json"), json.dump(2) + "\n");
}

}  // namespace samestep
