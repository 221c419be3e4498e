#include "model/parameter.h"

#include <algorithm>
#include <map>

#include "base/parallel_for.h"
#include "numerics/philox.h"

namespace samestep {

Parameter* ParameterSet::Add(const std::string& name, const Shape& shape, Initial initial, int token_lanes,
                             int data_lanes) {
  SAMESTEP_CHECK(Find(name) == nullptr);
  auto parameter = std::make_unique<Parameter>();
  parameter->name = name;
  parameter->weights = Tensor::Empty(shape);
  parameter->initial = initial;
  parameter->sum = GradientSum(shape, token_lanes, data_lanes);
  Parameter* p = parameter.get();
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

int64_t ParameterSet::elements() const {
  int64_t total = 0;
  for (const Parameter* p : sorted_) total += p->weights.elements();
  return total;
}

void ParameterSet::Initialize(uint64_t seed, float standard_deviation) {
  constexpr int64_t kPiece = 1 << 14;
  for (Parameter* p : sorted_) {
    const int64_t count = p->weights.elements();
    float* out = p->weights.f32();
    const uint32_t stream = StreamId("init", p->name);
    ParallelFor((count + kPiece - 1) / kPiece, [&](int64_t piece) {
      const int64_t first = piece * kPiece, n = std::min(kPiece, count - first);
      if (p->initial == Initial::kNormal) {
        InitNormal(out + first, first, n, seed, stream, standard_deviation);
      } else {
        std::fill_n(out + first, n, p->initial == Initial::kOnes ? 1.0f : 0.0f);
      }
    });
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
