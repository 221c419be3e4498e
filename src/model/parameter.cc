#include "model/parameter.h"

#include <algorithm>
#include <map>

#include "base/parallel_for.h"
#include "numerics/philox.h"

namespace samestep {
namespace {

// Part `rank` of `ranks` equal ones of [0, total).
Range EqualPart(int64_t total, int ranks, int rank) {
  SAMESTEP_CHECK_EQ(total % ranks, int64_t{0});
  const int64_t size = total / ranks;
  return {rank * size, size};
}

Range Shifted(const Range& range, int64_t by) { return {range.first + by, range.count}; }

}  // namespace

TensorView Parameter::Rows(int64_t first, int64_t count) const {
  return shard.Part({first, count}).View(weights.view().Slice(first, count));
}

Shard ParameterSet::ShardOf(const ParameterSpec& spec) const {
  const DecoderConfig& c = config_;
  const int ranks = grid_->layout().tensor, rank = grid_->place().tensor;
  switch (spec.cut) {
    case Cut::kReplicated:
      return Shard::Whole(spec.shape);
    case Cut::kOutputs:
    case Cut::kTokens:
      return Shard::Rows(spec.shape, EqualPart(spec.shape[0], ranks, rank));
    case Cut::kInputs:
      return Shard::Columns(spec.shape, EqualPart(spec.shape[1], ranks, rank));
    case Cut::kVocabulary: {
      const Range padded = EqualPart(c.vocab_padded, ranks, rank);
      const int64_t begin = std::min(padded.first, c.vocab), end = std::min(padded.end(), c.vocab);
      return Shard::Rows(spec.shape, {begin, end - begin});
    }
    case Cut::kFusedQkv: {
      if (ranks == 1) return Shard::Whole(spec.shape);
      const Range q = EqualPart(c.query_width(), ranks, rank), k = EqualPart(c.key_width(), ranks, rank);
      return Shard::RowRanges(spec.shape,
                              {q, Shifted(k, c.query_width()), Shifted(k, c.query_width() + c.key_width())});
    }
  }
  CheckFailed(__FILE__, __LINE__, "cut", "unknown");
}

GradientSum ParameterSet::SumOf(const Parameter& p, Cut cut) const {
  const Layout& layout = grid_->layout();
  const RankPlace& place = grid_->place();
  const bool by_token = cut == Cut::kReplicated || cut == Cut::kTokens;
  LaneRange token{0, config_.context_lanes, config_.context_lanes};
  if (by_token) {
    token.total *= config_.tensor_lanes;
    token.count = token.total / layout.tensor;
    token.first = place.tensor * token.count;
  }
  LaneRange data{0, config_.data_lanes / layout.data, config_.data_lanes};
  data.first = place.data * data.count;
  return {p.shard, token, data, p.replicated ? &grid_->tensor() : nullptr};
}

Parameter* ParameterSet::Add(const ParameterSpec& spec, bool held) {
  SAMESTEP_CHECK(Find(spec.name) == nullptr);
  auto parameter = std::make_unique<Parameter>();
  Parameter* p = parameter.get();
  p->name = spec.name;
  p->shape = spec.shape;
  p->initial = spec.initial;
  p->held = held;
  if (held) {
    p->replicated = spec.cut == Cut::kReplicated && grid_->layout().tensor > 1;
    p->shard = ShardOf(spec);
    p->weights = Tensor::Empty(p->shard.local_shape());
    p->own_rows = PartOf(p->shard.local_rows(), grid_->layout().data, grid_->place().data);
    p->sum = SumOf(*p, spec.cut);
  }
  owned_.push_back(std::move(parameter));
  const auto place =
      std::lower_bound(sorted_.begin(), sorted_.end(), p,
                       [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  sorted_.insert(place, p);
  return p;
}

Parameter* ParameterSet::Find(std::string_view name) const {
  for (Parameter* p : sorted_) {
    if (p->name == name) return p;
  }
  return nullptr;
}

std::vector<Parameter*> ParameterSet::Held() const {
  std::vector<Parameter*> held;
  std::copy_if(sorted_.begin(), sorted_.end(), std::back_inserter(held),
               [](Parameter* p) { return p->held; });
  return held;
}

int64_t ParameterSet::elements() const {
  int64_t total = 0;
  for (const Parameter* p : sorted_) total += p->shape.elements();
  return total;
}

void ParameterSet::Initialize(uint64_t seed, float standard_deviation) {
  constexpr int64_t kPiece = 1 << 14;
  for (Parameter* p : Held()) {
    const uint32_t stream = StreamId("init", p->name);
    const auto fill = [&](float* out, int64_t element, int64_t count) {
      ParallelFor((count + kPiece - 1) / kPiece, [&](int64_t piece) {
        const int64_t first = piece * kPiece, n = std::min(kPiece, count - first);
        if (p->initial == Initial::kNormal) {
          InitNormal(out + first, element + first, n, seed, stream, standard_deviation);
        } else {
          std::fill_n(out + first, n, p->initial == Initial::kOnes ? 1.0f : 0.0f);
        }
      });
    };
    const int64_t row = p->shape.rank() == 1 ? 1 : p->shape[1];  // elements of the logical tensor
    const int64_t width = p->shard.columns.count;
    for (const ShardBox& box : p->shard.boxes) {
      float* out = p->weights.f32() + box.local_row * width;
      if (width == row) {
        fill(out, box.global_row * row, box.rows * row);
        continue;
      }
      for (int64_t r = 0; r < box.rows; ++r) {
        fill(out + r * width, (box.global_row + r) * row + p->shard.columns.first, width);
      }
    }
  }
}

std::vector<std::string> ParameterSet::StreamCollisions() const {
  std::map<uint32_t, std::string> seen;
  std::vector<std::string> collisions;
  for (const Parameter* p : sorted_) {
    const auto [entry, added] = seen.emplace(StreamId("init", p->name), p->name);
    if (!added) collisions.push_back(entry->second + " and " + p->name);
  }
  return collisions;
}

}  // namespace samestep
