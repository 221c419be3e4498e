// held.h: which parts of which parameters a rank holds, without making them.
//
//   for (const HeldParameter& p : HeldParameters(model, layout, place)) bytes += p.copies * 4 * p.elements();
//
// Determinism: integers; the cuts are those of model/parameter.h.
#pragma once

#include <vector>

#include "model/config.h"
#include "model/parameter.h"
#include "parallel/layout.h"
#include "plan/count.h"

namespace samestep {

// Parameters that are alike: the same one of all layers that the rank holds.
struct HeldParameter {
  int64_t copies = 1;
  Cut cut = Cut::kReplicated;
  int64_t rows = 0, width = 0;  // of the shard
  bool tied = false;
  bool embedding = true;  // its gradient as an embedding, or as any other weight, is made here
  bool output = false;    // a tied one's gradient as output projection is made here
  bool owned() const { return embedding; }  // a tied weight on the last of several stages is a copy
  bool replicated(const Layout& layout) const { return cut == Cut::kReplicated && layout.tensor > 1; }
  bool by_token() const { return cut == Cut::kReplicated || cut == Cut::kTokens; }
  Count elements() const { return Count(rows) * width; }
};

struct RankShape {
  RankShape(const DecoderConfig& model, const Layout& layout, const RankPlace& place);
  int64_t layers = 0;
  bool first_stage, last_stage;
  DecoderConfig local;       // heads and features of this rank
  int64_t own_tokens;        // of a sample
  int64_t vocab, all_vocab;  // rows of embedding and output projection: real ones, with padding
};

std::vector<HeldParameter> HeldParameters(const DecoderConfig& model, const Layout& layout,
                                          const RankPlace& place);

}  // namespace samestep
