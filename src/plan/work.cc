#include "plan/work.h"

#include "kernels/exact_sum/exact_sum.h"
#include "plan/held.h"

namespace samestep {
namespace {

// What a ring all-gather or reduce-scatter of so many bytes sends from each of n ranks.
Count RingHalf(Count bytes, int64_t n) {
  return bytes.value() / n * (n - 1) + bytes.value() % n * (n - 1) / n;
}

class NetworkPlanner {
 public:
  NetworkPlanner(const PlanConfig& config, RankPlan& plan)
      : c_(config.model),
        layout_(config.layout),
        plan_(plan),
        shape_(c_, layout_, plan.place),
        tokens_(Count(SamplesOf(layout_, plan.place, config.global_batch).count) * c_.sequence),
        own_tokens_(tokens_.value() == Count::kMost ? tokens_ : Count(tokens_.value() / layout_.tensor)) {}

  void Run() {
    const std::vector<HeldParameter> held = HeldParameters(c_, layout_, plan_.place);
    if (layout_.tensor > 1) {
      AddTokenMoves();
      if (shape_.last_stage) AddVocabulary();
      if (shape_.first_stage) AddEmbeddingRows();
      AddReplicas(held);
    }
    if (layout_.data > 1) AddData(held);
    if (layout_.pipeline > 1) AddPipeline(held);
    if (layout_.ranks() > 1) AddIntegers();
  }

 private:
  void Add(const char* axis, const char* key, const char* label, Count bytes, Count ring) {
    plan_.network.push_back({axis, key, label, bytes, ring});
  }

  // A slice of tokens goes to each of the others (parallel/exchange.cc: GatherTokens, ReduceTokens).
  void AddTokenMoves() {
    const int64_t n = layout_.tensor;
    const Count one = own_tokens_ * c_.hidden * 4 * (n - 1);
    const Count ring = RingHalf(tokens_ * c_.hidden * 4, n);
    // Of a block: forward 2 gathers and 2 reductions (twice with recomputation), backward 2 and 2.
    const Count each = Count(shape_.layers) * (c_.recompute_layers ? 6 : 4);
    const int64_t head = shape_.last_stage ? 1 : 0, embedding = shape_.first_stage ? 1 : 0;
    Add("tensor", "gathers", "tokens gathered", one * (each + head + embedding),
        ring * (each + head + embedding));
    Add("tensor", "reductions", "partial sums", one * (each + head), ring * (each + head));
  }

  // OutputHead::LossesOfShards: the maximum, the sum and the target's logit of each row.
  void AddVocabulary() {
    const int64_t n = layout_.tensor;
    Add("tensor", "vocabulary", "rows of the loss", tokens_ * 3 * 4 * (n - 1),
        RingHalf(tokens_ * 3 * 4, n) * 2);
  }

  // EmbeddingLayer::ForwardShards: rows that this rank holds, for the tokens of others. At most all of those.
  void AddEmbeddingRows() {
    const int64_t n = layout_.tensor;
    const Count row = Count(c_.hidden) * 4, others = own_tokens_ * (n - 1);
    const double share = static_cast<double>(shape_.vocab) / static_cast<double>(c_.vocab);
    NetworkItem item{"tensor", "embedding_rows", "embedding rows"};
    item.bytes = shape_.vocab == 0 ? Count(0) : others * row;
    item.ring = RingHalf(tokens_ * row, n);
    item.at_most = true;
    const double expected = item.bytes.real() * share;
    item.expected = expected < 9e18 ? Count(static_cast<int64_t>(expected)) : Count(Count::kMost);
    plan_.network.push_back(item);
  }

  struct Moves {
    Count bytes, ring;
  };
  // Rows to their owners, `times`, and the owned rows back to all (StartSlices, StartGatherRows).
  static Moves Slices(const HeldParameter& p, int n, int rank) {
    const Count own = PartOf(p.rows, n, rank).count;
    const Count bytes = Count(p.rows - own.value()) * p.width * 4 * p.copies;
    return {bytes, RingHalf(p.elements() * 4 * p.copies, n)};
  }
  static Moves Gathers(const HeldParameter& p, int n, int rank) {
    const Count own = PartOf(p.rows, n, rank).count;
    return {own * p.width * 4 * (n - 1) * p.copies, RingHalf(p.elements() * 4 * p.copies, n)};
  }

  // GradientSum::FinishReplicas: the sum of each data lane is completed between tensor ranks.
  void AddReplicas(const std::vector<HeldParameter>& held) {
    Moves all;
    for (const HeldParameter& p : held) {
      if (!p.replicated(layout_)) continue;
      const Moves out = Slices(p, layout_.tensor, plan_.place.tensor);
      const Moves back = Gathers(p, layout_.tensor, plan_.place.tensor);
      all.bytes += out.bytes * (c_.data_lanes / layout_.data) + back.bytes;
      all.ring += out.ring + back.ring;
    }
    Add("tensor", "replicas", "gradients of replicas", all.bytes, all.ring);
  }

  // model/gradient_reducer.cc, optimizer/optimizer.cc
  void AddData(const std::vector<HeldParameter>& held) {
    Moves gradients, weights;
    for (const HeldParameter& p : held) {
      const Moves out = Slices(p, layout_.data, plan_.place.data);
      const Moves back = Gathers(p, layout_.data, plan_.place.data);
      // A tied weight has two gradients, which are added after their sums; a ring would send one.
      const int sums = p.tied && p.embedding && p.output ? 2 : 1;
      gradients.bytes += out.bytes * sums;
      gradients.ring += out.ring;
      weights.bytes += back.bytes;
      weights.ring += back.ring;
    }
    Add("data", "gradients", "gradient slices", gradients.bytes, gradients.ring);
    Add("data", "weights", "updated weights", weights.bytes, weights.ring);
  }

  // Decoder::Send, GradientReducer::PassTiedGradient, Optimizer::PassTiedWeights. No ring is involved.
  void AddPipeline(const std::vector<HeldParameter>& held) {
    const Count one = own_tokens_ * c_.hidden * 4;
    const int64_t chunks = layout_.chunks;
    const Count forward = one * (chunks - (shape_.last_stage ? 1 : 0));
    const Count backward = one * (chunks - (shape_.first_stage ? 1 : 0));
    Add("pipeline", "activations", "activations", forward, forward);
    Add("pipeline", "activation_gradients", "their gradients", backward, backward);
    Count tied;
    for (const HeldParameter& p : held) {
      if (p.tied) tied += Count(PartOf(p.rows, layout_.data, plan_.place.data).count) * p.width * 4;
    }
    if (c_.tied_output && tied > 0) Add("pipeline", "tied_weight", "the tied weight", tied, tied);
  }

  // What a rank gives to sums over all: targets and a flag, the loss, the norm, fingerprints of all
  // parameters; and with tensor ranks the digest of replicas.
  void AddIntegers() {
    const int64_t exact = 2 * (kExactSumWords - 1) + 3;
    int64_t parameters = 0;
    for (const HeldParameter& p : HeldParameters(c_, {}, {})) parameters += p.copies;
    plan_.integers = Count(8) * (2 + 2 * exact + 2 * parameters) + (layout_.tensor > 1 ? 16 : 0);
  }

  const DecoderConfig& c_;
  const Layout& layout_;
  RankPlan& plan_;
  RankShape shape_;
  Count tokens_, own_tokens_;  // of a step, on this data rank
};

}  // namespace

void PlanArithmetic(const PlanConfig& config, RankPlan& plan) {
  const DecoderConfig& c = config.model;
  const RankShape shape(c, config.layout, plan.place);
  const DecoderConfig& l = shape.local;
  const Count samples = SamplesOf(config.layout, plan.place, config.global_batch).count;
  const Count tokens = samples * c.sequence;
  // Products of a block: q, k, v, o, the first MLP projections, the second.
  const Count linear =
      tokens * c.hidden * (l.qkv_width() + l.query_width() + l.up_width() + l.intermediate) * shape.layers;
  // A query sees the keys up to its own: S (S + 1) / 2 pairs; of each 2 products forward, 5 backward.
  const Count pairs = c.sequence % 2 == 0 ? Count(c.sequence / 2) * (c.sequence + 1)
                                          : Count((c.sequence + 1) / 2) * c.sequence;
  const Count attention = samples * pairs * l.heads * c.head_size * shape.layers;
  const Count head = shape.last_stage ? tokens * c.hidden * shape.vocab : Count(0);
  plan.multiply_adds = (linear + head) * 3 + attention * 7;
  if (c.recompute_layers) plan.recompute = linear + attention * 2;
  // Element-wise passes over what a block keeps; accumulators once a micro-batch and once a lane; AdamW.
  const Count kept = Count(c.hidden) * 4 + l.qkv_width() + l.query_width() + l.up_width() + l.intermediate;
  const Count passes = (samples.value() + config.micro_batch - 1) / config.micro_batch;
  plan.traffic = tokens * kept * shape.layers * (4 * 8) +
                 plan.parameters * 4 * (passes * 2 + c.data_lanes / config.layout.data * 3) +
                 plan.owned_parameters * (4 * 7);
}

void PlanNetwork(const PlanConfig& config, RankPlan& plan) { NetworkPlanner(config, plan).Run(); }

}  // namespace samestep
