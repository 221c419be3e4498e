// parameter.h: the named weights of a model with their gradients.
//
//   for (Parameter* p : set.InOrder()) Update(p->weights.view(), p->gradient());
//
// Names are those of Hugging Face's causal-LM classes; shapes are logical: [out, in].
//
// Determinism: the order is bytewise by name; initial weights are addressed by name and element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/gradient_sum.h"

namespace samestep {

enum class Initial { kNormal, kOnes, kZeros };

struct Parameter {
  std::string name;
  Tensor weights;
  Initial initial = Initial::kNormal;
  GradientSum sum;        // over tokens
  GradientSum other_sum;  // of a tied weight: the embedding's part
  bool tied = false;
  Tensor tied_gradient;  // of a tied weight: fl(output + embedding)
  TensorView gradient;   // after FinishGradients, until the next step

  const Shape& shape() const { return weights.shape(); }
  bool decays() const { return shape().rank() >= 2; }
};

class ParameterSet {
 public:
  Parameter* Add(const std::string& name, const Shape& shape, Initial initial, int token_lanes,
                 int data_lanes);
  Parameter* Find(std::string_view name) const;  // null if there is none
  const std::vector<Parameter*>& InOrder() const { return sorted_; }
  int64_t elements() const;
  void Initialize(uint64_t seed, float standard_deviation);
  // Names whose addressed random streams collide: a recipe that has any is refused.
  std::vector<std::string> StreamCollisions() const;

 private:
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> sorted_;
};

}  // namespace samestep
