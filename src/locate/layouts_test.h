// layouts_test.h: traces of a small program as ranks of any layout would write them, and faults planted in
// what single ranks hold.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "trace/recorder.h"
#include "trace/stream.h"
#include "trace/toy_test.h"

namespace samestep::toy {

struct Cut {
  int data = 1, tensor = 1, pipeline = 1;
  int64_t micro_batch = 2;
  int ranks() const { return data * tensor * pipeline; }
  int RankOf(int d, int t, int p) const { return (p * data + d) * tensor + t; }
};

// One element of `tensor` is another one where `rank` writes or reads it at first; with -1, everywhere.
struct Plant {
  std::string tensor;
  int rank = -1;
  bool everywhere_after = true;  // what is computed from it differs, too
};

// A decoder of two layers, each a norm with a gain, a fused projection, a column-parallel and a row-parallel
// linear with a bias, and an output head, over 8 samples in two data lanes. Contents are made up; how parts
// are cut, reduced and held is real.
class LayoutProgram {
 public:
  LayoutProgram(const Cut& cut, const Plant& plant, int iteration = 1, int layers = 2)
      : cut_(cut), plant_(plant), iteration_(iteration), layers_(layers) {
    for (int r = 0; r < cut.ranks(); ++r) ranks_.emplace_back();
    Run();
  }
  size_t events(int rank) const { return ranks_[static_cast<size_t>(rank)].events.size(); }

  struct Recorded {
    Definition definition;
    std::vector<Fingerprint> slots;
    std::vector<uint64_t> values;
  };
  const std::vector<Recorded>& events_of(int rank) const { return ranks_[static_cast<size_t>(rank)].events; }

 private:
  static constexpr int64_t kN = 8, kS = 4, kH = 4, kI = 8, kQ = 12, kV = 6;
  static constexpr int kLanes = 2;

  struct Rank {
    std::vector<Recorded> events;
    std::map<std::string, uint64_t> last_slot;  // by content
    uint64_t slots = 0;
  };
  struct Arg {
    std::string role;
    bool output;
    std::string tensor;  // its logical name
    Shape global, at, shape;
    int begin = 0, end = 1, count = 1;  // lanes, if count > 1
    bool received = false;              // bytes that came from other ranks
  };

  int64_t FirstElement(const Arg& arg) const {
    int64_t index = 0;
    for (int i = 0; i < arg.global.rank(); ++i) index = index * arg.global[i] + arg.at[i];
    return index;
  }

  bool Tainted(int rank, const Arg& arg) const {
    for (const auto& [where, element] : taints_) {
      if (where.second != arg.tensor || (where.first >= 0 && where.first != rank)) continue;
      if (HasElement(arg, element)) return true;
    }
    return false;
  }

  static bool HasElement(const Arg& arg, int64_t element) {
    for (int i = arg.global.rank(); i-- > 0;) {
      const int64_t x = element % arg.global[i];
      element /= arg.global[i];
      if (x < arg.at[i] || x >= arg.at[i] + arg.shape[i]) return false;
    }
    return true;
  }

  Fingerprint Content(int rank, const Arg& arg) const {
    std::vector<float> values;
    const int64_t all = arg.shape.elements();
    uint64_t seed = SplitMix(static_cast<uint64_t>(iteration_));
    for (char c : arg.tensor) seed = SplitMix(seed ^ static_cast<uint64_t>(c));
    for (int64_t k = 0; k < all; ++k) {
      int64_t rest = k, index = 0;
      Shape x = arg.shape;
      for (int i = arg.shape.rank(); i-- > 0;) {
        x[i] = arg.at[i] + rest % arg.shape[i];
        rest /= arg.shape[i];
      }
      for (int i = 0; i < arg.shape.rank(); ++i) index = index * arg.global[i] + x[i];
      uint64_t h = SplitMix(seed ^ static_cast<uint64_t>(index));
      for (const auto& [where, element] : taints_) {
        if (where.second == arg.tensor && (where.first < 0 || where.first == rank) && element == index)
          h ^= 1;
      }
      values.push_back(static_cast<float>(h % 1000003));
    }
    return FingerprintOf(ViewOf(values.data(), arg.shape).Within(arg.global, arg.at));
  }

  static std::string ContentKey(const Arg& arg) {
    return arg.tensor + arg.at.ToString() + arg.shape.ToString();
  }

  void Emit(int rank, Phase phase, int mb, const std::string& module, const std::string& name,
            const std::vector<Arg>& args) {
    Rank& r = ranks_[static_cast<size_t>(rank)];
    Recorded event;
    event.definition.site.phase = phase;
    event.definition.site.micro_batch = mb;
    event.definition.site.module = module;
    event.definition.site.name = name;
    event.definition.site.version = 1;
    bool spoilt = false;
    for (const Arg& arg : args) {
      const bool here = plant_.tensor == arg.tensor && (plant_.rank < 0 || plant_.rank == rank);
      if (here && !planted_) {
        planted_ = true;
        taints_.insert({{plant_.rank, arg.tensor}, FirstElement(arg)});
      }
      if (!arg.output) spoilt = spoilt || Tainted(rank, arg);
      if (arg.output && spoilt && plant_.everywhere_after && arg.tensor != plant_.tensor)
        taints_.insert({{-1, arg.tensor}, FirstElement(arg)});
      TensorSite site;
      site.role = arg.role;
      site.output = arg.output;
      site.shape = arg.shape;
      site.global_shape = arg.global;
      site.offsets = arg.at;
      if (arg.count > 1) {
        site.placement = Placement::kPartial;
        site.lane_begin = arg.begin;
        site.lane_end = arg.end;
        site.lane_count = arg.count;
      }
      event.definition.site.tensors.push_back(site);
      const auto known = r.last_slot.find(ContentKey(arg));
      const bool has = !arg.output && !arg.received && known != r.last_slot.end();
      event.definition.sources.push_back(has ? static_cast<uint32_t>(r.slots - known->second) : 0);
      event.slots.push_back(Content(rank, arg));
      r.last_slot[ContentKey(arg)] = r.slots++;
    }
    r.events.push_back(std::move(event));
  }

  void Value(int rank, const std::string& name) {
    Recorded event;
    event.definition.site.kind = EventKind::kValue;
    event.definition.site.name = name;
    const bool off = plant_.tensor == name && (plant_.rank < 0 || plant_.rank == rank);
    event.values.push_back(std::bit_cast<uint64_t>(off ? 2.5 : 2.0 + iteration_));
    ranks_[static_cast<size_t>(rank)].events.push_back(std::move(event));
  }

  // For every data and tensor rank of the stage.
  template <typename F>
  void Stage(int layer, const F& emit) {
    const int p = layer * cut_.pipeline / layers_;
    for (int d = 0; d < cut_.data; ++d) {
      for (int t = 0; t < cut_.tensor; ++t) emit(cut_.RankOf(d, t, p), d, t);
    }
  }

  void Run() {
    const int64_t own = kN / cut_.data;
    for (int mb = 0; mb < own / cut_.micro_batch; ++mb) {
      for (int l = 0; l < layers_; ++l) Forward(l, mb);
      Head(mb);
      for (int l = layers_; l-- > 0;) Backward(l, mb);
    }
    for (int l = 0; l < layers_; ++l) Update(l);
    for (int r = 0; r < cut_.ranks(); ++r) Value(r, "loss");
  }

  // Activations: samples of data rank d's micro-batch; columns and tokens as asked.
  Arg Act(const std::string& role, bool output, const std::string& tensor, int d, int mb, int64_t token,
          int64_t tokens, int64_t width, int64_t column, int64_t columns) const {
    const int64_t first = d * (kN / cut_.data) + mb * cut_.micro_batch;
    return {
        role, output, tensor, {kN, kS, width}, {first, token, column}, {cut_.micro_batch, tokens, columns}};
  }
  Arg Own(const std::string& role, bool output, const std::string& tensor, int d, int t, int mb) const {
    const int64_t tokens = kS / cut_.tensor;
    return Act(role, output, tensor, d, mb, t * tokens, tokens, kH, 0, kH);
  }
  Arg All(const std::string& role, const std::string& tensor, int d, int mb) const {
    Arg arg = Act(role, false, tensor, d, mb, 0, kS, kH, 0, kH);
    arg.received = cut_.tensor > 1;
    return arg;
  }
  Arg Columns(const std::string& role, bool output, const std::string& tensor, int d, int t, int mb) const {
    const int64_t n = kI / cut_.tensor;
    return Act(role, output, tensor, d, mb, 0, kS, kI, t * n, n);
  }
  Arg UpWeights(const std::string& role, const std::string& w, int t) const {
    const int64_t n = kI / cut_.tensor;
    return {role, false, w, {kI, kH}, {t * n, 0}, {n, kH}};
  }

  // The partial sums of a rank, and their reduction to its tokens; or the whole at once.
  void Reduced(int rank, int d, int t, int mb, Phase phase, const std::string& module,
               const std::string& kernel, std::vector<Arg> inputs, const std::string& role,
               const std::string& tensor, const Arg* bias) {
    if (cut_.tensor == 1) {
      if (bias != nullptr) inputs.push_back(*bias);
      inputs.push_back(Own(role, true, tensor, d, t, mb));
      return Emit(rank, phase, mb, module, kernel, inputs);
    }
    Arg partial = Act(role, true, fmt::format("{}.partial{}", tensor, t), d, mb, 0, kS, kH, 0, kH);
    partial.begin = t;
    partial.end = t + 1;
    partial.count = cut_.tensor;
    inputs.push_back(partial);
    Emit(rank, phase, mb, module, kernel, inputs);
    const int64_t tokens = kS / cut_.tensor, first = d * (kN / cut_.data) + mb * cut_.micro_batch;
    Arg stack{"src",
              false,
              tensor + ".stack",
              {cut_.tensor, kN, kS, kH},
              {0, first, t * tokens, 0},
              {cut_.tensor, cut_.micro_batch, tokens, kH},
              0,
              cut_.tensor,
              cut_.tensor,
              true};
    const std::string summed = bias == nullptr ? tensor : tensor + ".sum";
    // A rank's partial that is spoilt spoils the stack.
    const bool spoilt = Tainted(rank, inputs.back()) ||
                        std::any_of(inputs.begin(), inputs.end(),
                                    [&](const Arg& a) { return !a.output && Tainted(rank, a); });
    if (spoilt && plant_.everywhere_after) taints_.insert({{-1, stack.tensor}, FirstElement(stack)});
    Emit(rank, phase, mb, module, "sum.tree", {stack, Own("dst", true, summed, d, t, mb)});
    if (bias == nullptr) return;
    Emit(rank, phase, mb, module, "sum.bias",
         {Own("src", false, summed, d, t, mb), *bias, Own("dst", true, tensor, d, t, mb)});
  }

  void Forward(int l, int mb) {
    const std::string m = fmt::format("layers.{}", l), x = fmt::format("x{}", l);
    const auto name = [&](const char* of) { return fmt::format("{}.{}", m, of); };
    Stage(l, [&](int r, int d, int t) {
      Emit(r, Phase::kForward, mb, m + ".norm", "rms_norm.forward",
           {Own("src", false, x, d, t, mb),
            {"gain", false, name("gain"), {kH}, {0}, {kH}},
            Own("dst", true, name("norm"), d, t, mb)});
    });
    Stage(l, [&](int r, int d, int t) {
      // One call, or one for each of q, k and v.
      const int parts = cut_.tensor == 1 ? 1 : 3;
      const int64_t width = kQ / parts, n = width / cut_.tensor;
      for (int i = 0; i < parts; ++i) {
        const int64_t at = i * width + t * n;
        Emit(r, Phase::kForward, mb, m + ".c_attn", "linear.forward",
             {All("src", name("norm"), d, mb),
              {"weights", false, name("c_attn.weight"), {kQ, kH}, {at, 0}, {n, kH}},
              Act("dst", true, name("qkv"), d, mb, 0, kS, kQ, at, n)});
      }
    });
    Stage(l, [&](int r, int d, int t) {
      Emit(r, Phase::kForward, mb, m + ".up", "linear.forward",
           {All("src", name("norm"), d, mb), UpWeights("weights", name("up.weight"), t),
            Columns("dst", true, name("up"), d, t, mb)});
    });
    Stage(l, [&](int r, int d, int t) {
      const int64_t n = kI / cut_.tensor;
      const Arg bias{"bias", false, name("down.bias"), {kH}, {0}, {kH}};
      Reduced(r, d, t, mb, Phase::kForward, m + ".down", "linear.forward",
              {Columns("src", false, name("up"), d, t, mb),
               {"weights", false, name("down.weight"), {kH, kI}, {0, t * n}, {kH, n}}},
              "dst", name("down"), &bias);
    });
    Stage(l, [&](int r, int d, int t) {
      Emit(r, Phase::kForward, mb, m, "sum.add",
           {Own("left", false, x, d, t, mb), Own("right", false, name("down"), d, t, mb),
            Own("dst", true, fmt::format("x{}", l + 1), d, t, mb)});
    });
  }

  Arg Tokens(const std::string& role, bool output, const std::string& tensor, int d, int mb, int64_t token,
             int64_t tokens) const {
    const int64_t first = d * (kN / cut_.data) + mb * cut_.micro_batch;
    return {role, output, tensor, {kN, kS}, {first, token}, {cut_.micro_batch, tokens}};
  }

  // One block of tokens; two on tensor ranks.
  void Losses(int r, int d, int t, int mb, int64_t token, int64_t tokens) {
    const int64_t n = kV / cut_.tensor;
    const auto logits = [&](const char* role, bool output, const char* tensor) {
      return Act(role, output, tensor, d, mb, token, tokens, kV, t * n, n);
    };
    const auto row = [&](const char* role, bool output) {
      return Tokens(role, output, fmt::format("lm_head.{}", role), d, mb, token, tokens);
    };
    // What tensor ranks say to each other: rows without a place in the batch.
    const auto local = [&](const char* role, bool output) {
      const int64_t rows = cut_.micro_batch * tokens;
      Arg arg{role, output, fmt::format("{}.{}.{}.{}", role, r, mb, token), {rows}, {0}, {rows}};
      arg.received = true;
      return arg;
    };
    Arg x = Act("src", false, fmt::format("x{}", layers_), d, mb, token, tokens, kH, 0, kH);
    x.received = cut_.tensor > 1;
    const Arg weights{"weights", false, "lm_head.weight", {kV, kH}, {t * n, 0}, {n, kH}};
    Emit(r, Phase::kForward, mb, "lm_head", "linear.forward", {x, weights, logits("dst", true, "logits")});
    if (cut_.tensor == 1) {
      Emit(r, Phase::kForward, mb, "lm_head", "cross_entropy",
           {logits("logits", false, "logits"), row("targets", false), logits("logits", true, "dlogits"),
            row("loss", true), row("row_max", true), row("row_sum", true)});
    } else {
      Emit(r, Phase::kForward, mb, "lm_head", "cross_entropy.max",
           {logits("logits", false, "logits"), local("local_max", true)});
      Emit(r, Phase::kForward, mb, "lm_head", "cross_entropy.sum",
           {logits("logits", false, "logits"), row("targets", false), local("maxima", false),
            logits("logits", true, "exponentials"), row("row_max", true), local("lane_sum", true)});
      Emit(r, Phase::kForward, mb, "lm_head", "cross_entropy.loss",
           {logits("logits", false, "exponentials"), row("targets", false), row("row_max", false),
            local("lane_sums", false), logits("logits", true, "dlogits"), row("loss", true),
            row("row_sum", true)});
    }
    Arg diff = Act("diff_src", true, fmt::format("dx{}", layers_), d, mb, token, tokens, kH, 0, kH);
    if (cut_.tensor > 1) {
      diff.tensor += fmt::format(".partial{}", t);
      diff.begin = t;
      diff.end = t + 1;
      diff.count = cut_.tensor;
    }
    Arg weights0 = weights;
    weights0.role = "weights0";
    Emit(r, Phase::kBackward, mb, "lm_head", "linear.backward_data",
         {logits("diff_dst0", false, "dlogits"), weights0, diff});
  }

  void Head(int mb) {
    const int64_t tokens = cut_.tensor > 1 ? kS / 2 : kS;
    Stage(layers_ - 1, [&](int r, int d, int t) {
      for (int64_t token = 0; token < kS; token += tokens) Losses(r, d, t, mb, token, tokens);
      if (cut_.tensor == 1) return;
      const int64_t own = kS / cut_.tensor, first = d * (kN / cut_.data) + mb * cut_.micro_batch;
      const std::string dx = fmt::format("dx{}", layers_);
      const Arg stack{"src",
                      false,
                      dx + ".stack",
                      {cut_.tensor, kN, kS, kH},
                      {0, first, t * own, 0},
                      {cut_.tensor, cut_.micro_batch, own, kH},
                      0,
                      cut_.tensor,
                      cut_.tensor,
                      true};
      Emit(r, Phase::kBackward, mb, "lm_head", "sum.tree", {stack, Own("dst", true, dx, d, t, mb)});
    });
  }

  void Backward(int l, int mb) {
    const std::string m = fmt::format("layers.{}", l), dx = fmt::format("dx{}", l + 1);
    const auto name = [&](const char* of) { return fmt::format("{}.{}", m, of); };
    Stage(l, [&](int r, int d, int t) {
      const Arg diff = All("diff_dst0", dx, d, mb);
      const int64_t n = kI / cut_.tensor;
      Emit(r, Phase::kBackward, mb, m, "linear.backward_data",
           {diff,
            {"weights0", false, name("down.weight"), {kH, kI}, {0, t * n}, {kH, n}},
            Columns("diff_src", true, name("dup"), d, t, mb)});
    });
    Stage(l, [&](int r, int d, int t) { Gradient(r, d, t, mb, name("up"), name("norm"), name("dup")); });
    Stage(l, [&](int r, int d, int t) {
      Reduced(
          r, d, t, mb, Phase::kBackward, m, "linear.backward_data",
          {Columns("diff_dst0", false, name("dup"), d, t, mb), UpWeights("weights0", name("up.weight"), t)},
          "diff_src", fmt::format("dx{}", l), nullptr);
    });
  }

  // The accumulator of a data lane, once for the samples of each that the micro-batch has; then what merges.
  void Gradient(int r, int d, int t, int mb, const std::string& module, const std::string& src,
                const std::string& diff) {
    const int64_t per_lane = kN / kLanes, n = kI / cut_.tensor;
    const int64_t first = d * (kN / cut_.data) + mb * cut_.micro_batch;
    for (int64_t at = first; at < first + cut_.micro_batch;) {
      const int lane = static_cast<int>(at / per_lane);
      const int64_t count = std::min((lane + 1) * per_lane, first + cut_.micro_batch) - at;
      Arg x = All("src", src, d, mb), dy = Columns("diff_dst", false, diff, d, t, mb);
      x.at[0] = dy.at[0] = at;
      x.shape[0] = dy.shape[0] = count;
      Arg sum{"diff_weights", true,          fmt::format("{}.lane{}", module, lane),
              {1, kI, kH},    {0, t * n, 0}, {1, n, kH},
              lane,           lane + 1,      kLanes};
      std::vector<Arg> args = {x, dy};
      if (at % per_lane != 0) {
        Arg before = sum;
        before.output = false;
        before.tensor += fmt::format(".to{}", at);
        args.push_back(before);
      }
      const bool whole = (at + count) % per_lane == 0;
      if (!whole) sum.tensor += fmt::format(".to{}", at + count);
      args.push_back(sum);
      Emit(r, Phase::kBackward, mb, module, "linear.backward_weights", args);
      at += count;
    }
    if (cut_.data > 1 || first + cut_.micro_batch < kN) return;
    std::vector<Arg> args;
    for (int lane = 0; lane < kLanes; ++lane) {
      args.push_back({lane == 0 ? "left" : "right",
                      false,
                      fmt::format("{}.lane{}", module, lane),
                      {kI, kH},
                      {t * n, 0},
                      {n, kH},
                      lane,
                      lane + 1,
                      kLanes});
      // The same memory as the accumulator, seen without its token lanes.
      Rank& rank = ranks_[static_cast<size_t>(r)];
      const Arg sum{"", false, args.back().tensor, {1, kI, kH}, {0, t * n, 0}, {1, n, kH}};
      rank.last_slot[ContentKey(args.back())] = rank.last_slot.at(ContentKey(sum));
    }
    args.push_back({"dst", true, module + ".gradient", {kI, kH}, {t * n, 0}, {n, kH}, 0, kLanes, kLanes});
    Emit(r, Phase::kReduce, mb, module, "sum.add", args);
  }

  void Update(int l) {
    const std::string m = fmt::format("layers.{}.up", l), w = m + ".weight";
    Stage(l, [&](int r, int d, int t) {
      const int64_t rows = kI / cut_.tensor / cut_.data, at = t * (kI / cut_.tensor) + d * rows;
      const Arg gradient{"", true, m + ".gradient", {kI, kH}, {at, 0}, {rows, kH}};
      if (cut_.data > 1) {
        Arg stack{"src",  false,  m + ".lanes", {kLanes, kI, kH}, {0, at, 0}, {kLanes, rows, kH}, 0,
                  kLanes, kLanes, true};
        for (int lane = 0; lane < kLanes; ++lane) {
          for (const auto& [where, element] : std::set(taints_)) {
            if (where.second == fmt::format("{}.lane{}", m, lane) && plant_.everywhere_after)
              taints_.insert({{-1, stack.tensor}, lane * kI * kH + element});
          }
        }
        Arg dst = gradient;
        dst.role = "dst";
        Emit(r, Phase::kReduce, 0, w, "sum.tree", {stack, dst});
      }
      const auto arg = [&](const char* role, bool output, const std::string& tensor) {
        Arg a = gradient;
        a.role = role;
        a.output = output;
        a.tensor = tensor;
        return a;
      };
      Emit(r, Phase::kOptimizer, 0, w, "adamw",
           {arg("weights", false, w), arg("gradient", false, m + ".gradient"),
            arg("first_moment", false, w + ".m"), arg("weights", true, w + "'"),
            arg("first_moment", true, w + ".m'")});
    });
  }

  Cut cut_;
  Plant plant_;
  int iteration_, layers_;
  std::vector<Rank> ranks_;
  bool planted_ = false;
  std::set<std::pair<std::pair<int, std::string>, int64_t>> taints_;  // (rank or -1, tensor), element
};

// Two iterations; the fault is in the second.
inline void WriteTraces(const Folder& folder, const Cut& cut, const Plant& plant = {},
                        const std::string& recorded = "all", int layers = 2) {
  const Selection selection = *Selection::Parse(recorded, "");
  const LayoutProgram programs[] = {LayoutProgram(cut, {}, 1, layers), LayoutProgram(cut, plant, 2, layers)};
  for (int rank = 0; rank < cut.ranks(); ++rank) {
    if (!selection.Has(rank)) continue;
    TraceHeader header = Header(cut.micro_batch);
    header.layout["data"] = cut.data;
    header.layout["tensor"] = cut.tensor;
    header.layout["pipeline"] = cut.pipeline;
    header.rank = rank;
    header.ranks = cut.ranks();
    header.recorded_ranks = selection.ToString();
    auto writer = TraceWriter::Create(folder.path(), header);
    SAMESTEP_CHECK(writer.ok());
    for (int i = 0; i < 2; ++i) {
      Segment segment;
      segment.key = {i + 1, false};
      RollUpBuilder roll_ups(Level::kKernel);
      uint64_t slots = 0;
      for (const LayoutProgram::Recorded& event : programs[i].events_of(rank)) {
        const uint32_t id = writer->Define(DefinitionBytes(event.definition));
        roll_ups.Add(*writer->definitions()[id], event.values, event.slots, slots);
        slots += event.slots.size();
        segment.events.push_back(
            {id, static_cast<uint32_t>(segment.slots.size()), static_cast<uint32_t>(segment.values.size())});
        segment.slots.insert(segment.slots.end(), event.slots.begin(), event.slots.end());
        segment.values.insert(segment.values.end(), event.values.begin(), event.values.end());
      }
      segment.definitions = &writer->definitions();
      RollUp roll_up = roll_ups.Finish(segment.key);
      roll_up.events = static_cast<uint32_t>(segment.events.size());
      SAMESTEP_CHECK(writer->Write(segment, &roll_up).ok());
    }
    SAMESTEP_CHECK(writer->Finish().ok());
  }
}

}  // namespace samestep::toy
