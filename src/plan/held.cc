#include "plan/held.h"

#include <algorithm>

#include "model/block.h"

namespace samestep {
namespace {

class Collector {
 public:
  Collector(const DecoderConfig& model, const Layout& layout, const RankPlace& place)
      : model_(model), shape_(model, layout, place) {}

  std::vector<HeldParameter> All() {
    AddEmbeddings();
    if (shape_.layers > 0) AddBlock();
    if (shape_.last_stage) {
      AddNorm(1);
      if (!model_.tied_output) Add(1, shape_.vocab, model_.hidden, Cut::kVocabulary);
    }
    return held_;
  }

 private:
  // `rows` and `width` are the shard's.
  HeldParameter& Add(int64_t copies, int64_t rows, int64_t width, Cut cut) {
    return held_.emplace_back(HeldParameter{.copies = copies, .cut = cut, .rows = rows, .width = width});
  }

  void AddEmbeddings() {
    const bool tied = model_.tied_output;
    if (shape_.first_stage || (tied && shape_.last_stage)) {
      HeldParameter& p = Add(1, shape_.vocab, model_.hidden, Cut::kVocabulary);
      p.tied = tied;
      p.embedding = shape_.first_stage;
      p.output = tied && shape_.last_stage;
    }
    if (shape_.first_stage && model_.family == DecoderFamily::kGpt2) {
      Add(1, shape_.own_tokens, model_.hidden, Cut::kTokens);
    }
  }

  void AddNorm(int64_t copies) {
    const int vectors = model_.family == DecoderFamily::kGpt2 ? 2 : 1;
    for (int i = 0; i < vectors; ++i) Add(copies, model_.hidden, 1, Cut::kReplicated);
  }

  void AddColumnParallel(int64_t outputs, Cut cut) {
    Add(shape_.layers, outputs, model_.hidden, cut);
    if (model_.linear_biases) Add(shape_.layers, outputs, 1, cut);
  }

  void AddRowParallel(int64_t inputs) {
    Add(shape_.layers, model_.hidden, inputs, Cut::kInputs);
    if (model_.linear_biases) Add(shape_.layers, model_.hidden, 1, Cut::kReplicated);
  }

  void AddBlock() {
    const DecoderConfig& c = shape_.local;
    AddNorm(shape_.layers);
    AddNorm(shape_.layers);
    if (model_.family == DecoderFamily::kLlama) {
      for (const int64_t outputs : {c.query_width(), c.key_width(), c.key_width()}) {
        AddColumnParallel(outputs, Cut::kOutputs);
      }
    } else {
      AddColumnParallel(c.qkv_width(), Cut::kFusedQkv);
    }
    AddRowParallel(c.query_width());
    const int projections = model_.mlp == MlpKind::kSwiglu ? 2 : 1;
    for (int i = 0; i < projections; ++i) AddColumnParallel(c.intermediate, Cut::kOutputs);
    AddRowParallel(c.intermediate);
  }

  const DecoderConfig& model_;
  RankShape shape_;
  std::vector<HeldParameter> held_;
};

}  // namespace

RankShape::RankShape(const DecoderConfig& model, const Layout& layout, const RankPlace& place)
    : first_stage(place.pipeline == 0),
      last_stage(place.pipeline == layout.pipeline - 1),
      local(LocalConfig(model, layout.tensor)),
      own_tokens(model.sequence / layout.tensor),
      all_vocab(model.vocab_padded / layout.tensor) {
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    layers += LayersOf(layout, place.pipeline, chunk, LayerCostsOf(model)).count;
  }
  const int64_t first = std::min(model.vocab, place.tensor * all_vocab);
  vocab = std::min(model.vocab, (place.tensor + 1) * all_vocab) - first;
}

std::vector<HeldParameter> HeldParameters(const DecoderConfig& model, const Layout& layout,
                                          const RankPlace& place) {
  return Collector(model, layout, place).All();
}

}  // namespace samestep
