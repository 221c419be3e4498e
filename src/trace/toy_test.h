// toy_test.h: small kernels and programs of calls that tests of traces record.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "kernels/registry.h"
#include "trace/recorder.h"
#include "trace/stream.h"

namespace samestep::toy {

// dst = src * factor + bias; acc += src; both row by row.
inline void Scale(const Call& call) {
  const TensorView &src = call.view(0), &dst = call.view(1);
  for (int64_t i = 0; i < src.elements(); ++i) dst.f32()[i] = src.f32()[i] * call.Real("factor") + 1;
}
inline void Add(const Call& call) {
  const TensorView &src = call.view(0), &acc = call.view(1);
  for (int64_t i = 0; i < src.elements(); ++i) acc.f32()[i] += src.f32()[i];
}
// total = sum of rows of src: continues where the call updates.
inline void Rows(const Call& call) {
  const TensorView &src = call.view(0), &total = call.view(1);
  const bool continues = call.argument(1).access == Access::kUpdate;
  for (int64_t c = 0; c < src.columns(); ++c) {
    float sum = continues ? total.f32()[c] : 0;
    for (int64_t r = 0; r < src.rows(); ++r) sum += src.f32()[r * src.row_stride() + c];
    total.f32()[c] = sum;
  }
}

inline std::vector<Problem> NoProblems() { return {}; }
inline const Kernel& ScaleKernel() {
  static const Kernel& kernel =
      RegisterKernel({.name = "toy.scale",
                      .version = 1,
                      .arguments = {{"src", Access::kRead}, {"dst", Access::kWrite}},
                      .reference = Scale,
                      .fast = Scale,
                      .problems = NoProblems,
                      .summary = ""});
  return kernel;
}
inline const Kernel& AddKernel() {
  static const Kernel& kernel =
      RegisterKernel({.name = "toy.add",
                      .version = 1,
                      .arguments = {{"src", Access::kRead}, {"acc", Access::kUpdate}},
                      .reference = Add,
                      .fast = Add,
                      .problems = NoProblems,
                      .summary = ""});
  return kernel;
}
inline const Kernel& RowsKernel() {
  static const Kernel& kernel =
      RegisterKernel({.name = "toy.rows",
                      .version = 1,
                      .arguments = {{"src", Access::kRead}, {"total", Access::kWrite}},
                      .reference = Rows,
                      .fast = Rows,
                      .problems = NoProblems,
                      .summary = ""});
  return kernel;
}

// What a test does differently in a run.
struct Fault {
  int64_t iteration = 0;
  enum Kind {
    kNone,
    kData,         // another token
    kKernel,       // one element of layer 1's output, by one bit
    kExtraCall,    // a call more in layer 1
    kMissingCall,  // layer 1's call left out
    kOtherOrder,   // layers 1 and 0 of the backward pass exchanged
    kAttribute,    // another factor
    kState,        // the weights change between iterations
    kBetween,      // an activation changes between two calls
  } kind = kNone;
};

class Folder {
 public:
  Folder() {
    const std::string memory = "/dev/shm";  // where fsync costs nothing
    const std::string base = IsFolder(memory) ? memory : std::filesystem::temp_directory_path().string();
    std::string pattern = JoinPath(base, "samestep-trace-XXXXXX");
    SAMESTEP_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return JoinPath(path_, name); }
  const std::string& path() const { return path_; }
  std::vector<std::string> names() const { return ListFolder(path_).value(); }

 private:
  std::string path_;
};

// Without the fsync of WriteFileAtomically.
inline void Put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
      names_.push_back(name);
    }
  }
  ~Environment() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }

 private:
  std::vector<std::string> names_;
};

inline TraceHeader Header(int64_t micro_batch = 8) {
  TraceHeader header;
  header.numerics = "fma-1";
  header.recipe_digest = "0123456789abcdef";
  header.software = {{"samestep", "0.1.0"}};
  header.layout = {{"micro_batch", micro_batch}};
  return header;
}

// A program of two layers over a global batch of 8 rows: forward, backward, and an update of weights, all
// toys.
struct Program {
  int64_t first = 1, last = 4;
  int64_t micro_batch = 8;
  Fault fault = {};
  bool finish = true;
  bool evaluate = false;
  int layers = 2;
  TraceHeader header = Header();

  // The weights after the last iteration.
  std::vector<float> Run(std::vector<float> weights = {}) {
    constexpr int64_t kColumns = 12, kSamples = 8;
    header.layout["micro_batch"] = micro_batch;
    auto made = MakeRecorder(header);
    SAMESTEP_CHECK(made.ok());
    Recorder* recorder = made->get();
    CallContext& context = CallContext::Current();
    context.phase = Phase::kData;
    if (recorder != nullptr) context.AddObserver(recorder);
    if (weights.empty()) weights.assign(kColumns, 0.5f);
    for (int64_t t = first; t <= last; ++t) {
      const Fault::Kind kind = fault.iteration == t ? fault.kind : Fault::kNone;
      if (kind == Fault::kState) weights[3] += 0.25f;
      BeginIteration(t);
      std::vector<float> tokens(kSamples * kColumns);
      std::vector<std::vector<float>> totals(static_cast<size_t>(layers), std::vector<float>(kColumns));
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<float>((static_cast<size_t>(t) * 31 + i * 7) % 17);
      }
      if (kind == Fault::kData) tokens[40] += 1;
      std::vector<std::vector<float>> activations(static_cast<size_t>(layers) + 1, tokens);
      for (int64_t begin = 0; begin < kSamples; begin += micro_batch) {
        context.micro_batch = static_cast<int32_t>(begin / micro_batch);
        const auto rows = [&](std::vector<float>& all) {
          return ViewOf(all.data(), {kSamples, kColumns}).Slice(begin, micro_batch);
        };
        {
          ScopedPhase phase(Phase::kData);
          NoteTensor("tokens", rows(activations[0]));
        }
        Forward(&activations, rows, kind);
        Backward(&activations, rows, kind, begin == 0, &totals);
      }
      context.micro_batch = 0;
      for (std::vector<float>& total : totals) {
        ScopedPhase phase(Phase::kOptimizer);
        Call call(AddKernel());
        call.Read(ViewOf(total.data(), {kColumns})).Update(ViewOf(weights.data(), {kColumns}));
        samestep::Run(call);
      }
      uint64_t bits = 0;
      std::memcpy(&bits, &weights[0], 4);
      NoteValue("loss", bits);
      EndIteration();
      if (evaluate) {
        ScopedPhase phase(Phase::kEvaluate);
        Call call(ScaleKernel());
        call.Read(ViewOf(weights.data(), {kColumns}))
            .Write(ViewOf(totals[0].data(), {kColumns}))
            .Set("factor", 2.0f);
        samestep::Run(call);
      }
    }
    if (recorder != nullptr) {
      if (finish) SAMESTEP_CHECK(recorder->Finish().ok());
      context.RemoveObserver(recorder);
    }
    return weights;
  }

 private:
  template <typename RowsOf>
  void Forward(std::vector<std::vector<float>>* activations, const RowsOf& rows, Fault::Kind kind) {
    ScopedPhase phase(Phase::kForward);
    for (int layer = 0; layer < layers; ++layer) {
      ScopedModule module("layers." + std::to_string(layer));
      const TensorView src = rows((*activations)[static_cast<size_t>(layer)]);
      const TensorView dst = rows((*activations)[static_cast<size_t>(layer) + 1]);
      const bool here = layer == 1;
      Call call(ScaleKernel());
      call.Read(src).Write(dst).Set("factor", here && kind == Fault::kAttribute ? 0.75f : 0.5f);
      if (!(here && kind == Fault::kMissingCall)) samestep::Run(call);
      if (here && kind == Fault::kExtraCall) samestep::Run(call);
      if (layer == 0 && kind == Fault::kBetween) dst.f32()[5] += 1;
    }
  }
  template <typename RowsOf>
  void Backward(std::vector<std::vector<float>>* activations, const RowsOf& rows, Fault::Kind kind, bool set,
                std::vector<std::vector<float>>* totals) {
    ScopedPhase phase(Phase::kBackward);
    for (int i = 0; i < layers; ++i) {
      const int layer = kind == Fault::kOtherOrder ? i : layers - 1 - i;
      ScopedModule module("layers." + std::to_string(layer));
      std::vector<float>& total = (*totals)[static_cast<size_t>(layer)];
      Call call(RowsKernel());
      call.Read(rows((*activations)[static_cast<size_t>(layer) + 1]));
      call.Add(ViewOf(total.data(), {static_cast<int64_t>(total.size())}),
               set ? Access::kWrite : Access::kUpdate);
      samestep::Run(call);
    }
  }
};

// Changes layer 1's forward output in one iteration, as a faulty kernel would.
class BitFlip : public CallInterceptor {
 public:
  BitFlip(int64_t iteration, std::string module, std::string kernel = "toy.scale", int bit = 0,
          int32_t micro_batch = 0)
      : iteration_(iteration),
        module_(std::move(module)),
        kernel_(std::move(kernel)),
        bit_(bit),
        micro_batch_(micro_batch) {
    CallContext::Current().interceptor = this;
  }
  ~BitFlip() override { CallContext::Current().interceptor = nullptr; }
  void Execute(const Call& call) override {
    samestep::Execute(call);
    const CallContext& context = CallContext::Current();
    if (context.iteration != iteration_ || context.module != module_ || call.kernel().name != kernel_) return;
    if (context.micro_batch != micro_batch_) return;
    uint32_t word;
    std::memcpy(&word, call.view(1).f32() + 9, 4);
    word ^= 1u << bit_;
    std::memcpy(call.view(1).f32() + 9, &word, 4);
  }

 private:
  int64_t iteration_;
  std::string module_, kernel_;
  int bit_;
  int32_t micro_batch_;
};

}  // namespace samestep::toy
