#include "kernels/attention/attention_problems.h"

#include <fmt/format.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_call.h"

namespace samestep {
namespace {

struct Sizes {
  int64_t samples, tokens;
  int heads, kv_heads, head_size, context_lanes;
  int64_t row_padding;
  double scale;  // of queries: large ones make sharp rows and drop probabilities to +0
  bool timed;
};

// Around the tile of 64; groups; odd head sizes; context lanes whose tiles straddle those of the keys.
constexpr Sizes kSizes[] = {
    {1, 1, 1, 1, 1, 1, 0, 1, false},      {2, 5, 2, 1, 3, 1, 0, 1, false},
    {1, 63, 1, 1, 16, 1, 5, 1, false},    {1, 64, 2, 2, 8, 1, 0, 40, false},
    {2, 65, 2, 1, 7, 1, 3, 1, false},     {1, 66, 1, 1, 33, 1, 0, 1, false},
    {1, 130, 2, 1, 17, 1, 0, 8, false},   {1, 130, 2, 1, 5, 2, 1, 1, false},
    {1, 200, 1, 1, 20, 1, 128, 1, false}, {1, 200, 2, 1, 3, 4, 0, 3, false},
    {1, 9, 1, 1, 256, 1, 0, 1, false},    {4, 512, 12, 12, 64, 1, 1536, 1, true},
    {4, 512, 8, 2, 128, 1, 0, 1, true},
};

Problem Common(const Sizes& s) {
  Problem p;
  p.label = fmt::format("samples {} tokens {} heads {}/{} size {} lanes {}{}", s.samples, s.tokens, s.heads,
                        s.kv_heads, s.head_size, s.context_lanes, s.row_padding ? " strided" : "");
  const Shape queries{s.samples, s.tokens, int64_t{s.heads} * s.head_size};
  const Shape keys{s.samples, s.tokens, int64_t{s.kv_heads} * s.head_size};
  p.arguments.push_back({.shape = queries, .scale = s.scale, .row_padding = s.row_padding});
  p.arguments.push_back({.shape = keys, .row_padding = s.row_padding});
  p.arguments.push_back({.shape = keys, .row_padding = s.row_padding});
  p.attributes = {IntegerAttribute("heads", s.heads), IntegerAttribute("kv_heads", s.kv_heads),
                  IntegerAttribute("head_size", s.head_size),
                  IntegerAttribute("context_lanes", s.context_lanes),
                  RealAttribute("scale", AttentionScale(s.head_size))};
  p.timed = s.timed;
  return p;
}

void AddForwardResult(const Sizes& s, Fill fill, Problem& p) {
  const Shape statistics{s.samples, s.heads, s.tokens};
  p.arguments.push_back({.shape = p.arguments[kQ].shape, .fill = fill, .row_padding = s.row_padding});
  p.arguments.push_back({.shape = statistics, .fill = fill});
  p.arguments.push_back({.shape = statistics, .fill = fill});
}

// What the backward pass reads of the forward pass.
void RunForward(const Call& call) {
  const Kernel* forward = FindKernel("attention.forward");
  Call first(*forward);
  for (int i = kQ; i <= kV; ++i) first.Read(call.view(i));
  for (int i = kDst; i <= kRowSum; ++i) first.Write(call.view(i));
  for (const char* name : {"heads", "kv_heads", "head_size", "context_lanes"}) {
    first.Set(name, call.Integer(name));
  }
  first.Set("scale", call.Real("scale"));
  forward->fast(first);
}

}  // namespace

std::vector<Problem> AttentionForwardProblems() {
  std::vector<Problem> problems;
  for (const Sizes& s : kSizes) {
    problems.push_back(Common(s));
    AddForwardResult(s, Fill::kOutput, problems.back());
  }
  return problems;
}

std::vector<Problem> AttentionBackwardProblems() {
  std::vector<Problem> problems;
  for (const Sizes& s : kSizes) {
    Problem p = Common(s);
    AddForwardResult(s, Fill::kZero, p);
    p.arguments.push_back({.shape = p.arguments[kQ].shape, .row_padding = s.row_padding});
    for (const int like : {kQ, kK, kV}) {
      p.arguments.push_back({.shape = p.arguments[static_cast<size_t>(like)].shape,
                             .fill = Fill::kOutput,
                             .row_padding = s.row_padding});
    }
    p.prepare = RunForward;
    problems.push_back(std::move(p));
  }
  return problems;
}

}  // namespace samestep
