// hugging_face.h: weights in Hugging Face's naming and layout: in and out.
//
//   SAMESTEP_RETURN_IF_ERROR(ImportWeights("model.safetensors", config, parameters));
//   SAMESTEP_RETURN_IF_ERROR(ExportModel("folder", config, parameters));   // model.safetensors, config.json
//
// Our parameters have those names already. What differs: GPT-2's projections are stored [in, out] (Conv1D);
// names may lack the "transformer." or "model." prefix; mask buffers are ignored; a tied output projection is
// absent.
//
// Determinism: bytes are moved, never converted.
#pragma once

#include <string>

#include "model/config.h"
#include "model/parameter.h"

namespace samestep {

Status ImportWeights(const std::string& path, const DecoderConfig& config, ParameterSet& parameters);
// Writes weights (or gradients) under their names in the layout that `transformers` expects.
enum class Tensors { kWeights, kGradients };
Status ExportTensors(const std::string& path, const DecoderConfig& config, const ParameterSet& parameters,
                     Tensors which);
// A folder that transformers.AutoModelForCausalLM.from_pretrained loads. `eos` below 0: none.
Status ExportModel(const std::string& folder, const DecoderConfig& config, const ParameterSet& parameters,
                   const std::string& norm_eps, int64_t eos);

}  // namespace samestep
