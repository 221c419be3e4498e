// parameter.h: the named weights of a model: all of them by name, and the parts that this rank holds.
//
//   for (Parameter* p : set.Owned()) Update(p->owned_weights(), p->gradient);
//
// Names are those of Hugging Face's causal-LM classes; shapes are logical: [out, in]. A rank holds a shard of
// the parameters of its layers: all of it, or what its tensor rank works with. Of that shard it owns some
// rows: data ranks hold the same shard, and each updates its part (optimizer state exists for that alone).
//
// Determinism: the order is bytewise by name; initial weights are addressed by name and element.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/gradient_sum.h"
#include "parallel/process_grid.h"
#include "parallel/shard.h"

namespace samestep {

enum class Initial { kNormal, kOnes, kZeros };

struct Parameter {
  std::string name;
  Shape shape;  // of the logical tensor
  Initial initial = Initial::kNormal;
  bool held = false;        // by this rank; else only name and shape are known
  bool replicated = false;  // tensor ranks hold the same
  bool copy = false;        // a tied weight on the last stage; its owner is the embedding's rank
  Shard shard;              // what is held
  Tensor weights;           // of the shard
  Range own_rows;           // local rows whose gradient and moments this rank has
  GradientSum sum;          // over tokens
  GradientSum other_sum;    // of a tied weight: the embedding's part
  bool tied = false;
  TensorView gradient;  // of the owned rows, after the reduction, until the next step

  bool owned() const { return held && !copy; }
  bool decays() const { return shape.rank() >= 2; }
  // Local rows [first, first + count) of the weights, at their place; they must lie in one box.
  TensorView Rows(int64_t first, int64_t count) const;
  // All that is held, where it is one box.
  TensorView view() const { return shard.View(weights.view()); }
  // The owned rows: as a shard whose memory begins at the first of them, and that memory.
  Shard owned_shard() const { return shard.Part(own_rows); }
  TensorView owned_weights() const { return weights.view().Slice(own_rows.first, own_rows.count); }
};

// How a parameter is cut between tensor ranks.
enum class Cut {
  kReplicated,  // gains, norm biases, biases after a sum over tensor ranks
  kOutputs,     // rows: outputs of a column-parallel linear, its bias
  kFusedQkv,    // rows: the rank's heads of q, of k and of v
  kInputs,      // columns: inputs of a row-parallel linear
  kVocabulary,  // rows: tokens of the padded vocabulary
  kTokens,      // rows: positions
};

struct ParameterSpec {
  std::string name;
  Shape shape;
  Initial initial = Initial::kNormal;
  Cut cut = Cut::kReplicated;
};

class ParameterSet {
 public:
  ParameterSet(const DecoderConfig& config, ProcessGrid& grid) : config_(config), grid_(&grid) {}

  // `held`: whether this rank's layers use it.
  Parameter* Add(const ParameterSpec& spec, bool held);
  Parameter* Find(std::string_view name) const;                       // null if there is none
  const std::vector<Parameter*>& InOrder() const { return sorted_; }  // all of the model
  std::vector<Parameter*> Held() const;                               // in the same order
  int64_t elements() const;                                           // of the model
  void Initialize(uint64_t seed, float standard_deviation);
  // Names whose addressed random streams collide: a recipe that has any is refused.
  std::vector<std::string> StreamCollisions() const;
  // The gradient sum of a parameter cut so.
  GradientSum SumOf(const Parameter& parameter, Cut cut) const;

 private:
  Shard ShardOf(const ParameterSpec& spec) const;
  DecoderConfig config_;
  ProcessGrid* grid_;
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> sorted_;
};

}  // namespace samestep
