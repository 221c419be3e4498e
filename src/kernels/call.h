// call.h: one call of a kernel, where it stands in the program, and who may watch it.
//
//   Call call(kRmsNormForward);
//   call.Read(src).Read(gain).Write(dst).Write(rstd).Set("eps", eps);
//   Run(call);
//
// Everything that computes is such a call. Run tells the observers (the trace recorder) before and after,
// and executes the fast implementation, or the scalar reference where the context asks for it.
// Scopes give the place: ScopedModule, ScopedPhase, BeginIteration.
//
// Calls are issued by one thread a process at a time; kernels use ParallelFor inside.
//
// Determinism: observers see bytes and change none.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace samestep {

struct Kernel;  // kernels/registry.h

enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: reads what it then overwrites

struct Argument {
  TensorView view;
  Access access = Access::kRead;
};

// A number that belongs to a call but is no tensor: a width, an epsilon.
struct Attribute {
  const char* name = "";
  bool is_float = false;
  int64_t integer = 0;
  float real = 0;
};

class Call {
 public:
  static constexpr int kMaxArguments = 12;
  static constexpr int kMaxAttributes = 12;
  explicit Call(const Kernel& kernel) : kernel_(&kernel) {}

  // Arguments in the order of the kernel's specification. A view without data is an absent optional.
  Call& Read(const TensorView& view) { return Add(view, Access::kRead); }
  Call& Write(const TensorView& view) { return Add(view, Access::kWrite); }
  Call& Update(const TensorView& view) { return Add(view, Access::kUpdate); }
  Call& Add(const TensorView& view, Access access);
  Call& Set(const char* name, int64_t value);
  Call& Set(const char* name, int value) { return Set(name, static_cast<int64_t>(value)); }
  Call& Set(const char* name, float value);

  const Kernel& kernel() const { return *kernel_; }
  int argument_count() const { return argument_count_; }
  const Argument& argument(int i) const { return arguments_[static_cast<size_t>(i)]; }
  const TensorView& view(int i) const { return arguments_[static_cast<size_t>(i)].view; }
  int attribute_count() const { return attribute_count_; }
  const Attribute& attribute(int i) const { return attributes_[static_cast<size_t>(i)]; }
  int64_t Integer(std::string_view name) const;
  float Real(std::string_view name) const;

 private:
  const Attribute& Find(std::string_view name, bool is_float) const;
  const Kernel* kernel_;
  int argument_count_ = 0, attribute_count_ = 0;
  std::array<Argument, kMaxArguments> arguments_;
  std::array<Attribute, kMaxAttributes> attributes_;
};

enum class Phase : uint8_t {
  kData,
  kForward,
  kBackward,
  kRecompute,
  kReduce,
  kOptimizer,
  kCheckpoint,
  kEvaluate
};
std::string_view NameOf(Phase phase);

// Watches calls. Methods are called by the issuing thread, in execution order.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnBeginIteration(int64_t /*iteration*/) {}
  virtual void OnEndIteration(int64_t /*iteration*/) {}
  virtual void BeforeCall(const Call& /*call*/) {}
  virtual void AfterCall(const Call& /*call*/) {}
  // A tensor that no kernel made (tokens of a batch, state read from a checkpoint), or state worth a digest.
  virtual void OnTensor(std::string_view /*name*/, const TensorView& /*view*/) {}
  // A scalar result, by its bits (loss and norm as binary64).
  virtual void OnValue(std::string_view /*name*/, uint64_t /*bits*/) {}
};

// Runs in place of or after the real implementation. For planted faults (src/faults) only.
class CallInterceptor {
 public:
  virtual ~CallInterceptor() = default;
  virtual void Execute(const Call& call) = 0;
};

// Where the issuing thread stands. One a thread.
class CallContext {
 public:
  static CallContext& Current();
  int64_t iteration = 0;    // optimizer step, from 1; 0 before the first
  int32_t micro_batch = 0;  // within the iteration
  Phase phase = Phase::kData;
  std::string module;  // "model.layers.0.self_attn"
  bool use_reference = false;
  CallInterceptor* interceptor = nullptr;
  void AddObserver(CallObserver* observer) { observers_.push_back(observer); }
  void RemoveObserver(CallObserver* observer);
  const std::vector<CallObserver*>& observers() const { return observers_; }

 private:
  std::vector<CallObserver*> observers_;
};

void BeginIteration(int64_t iteration);
void EndIteration();
void NoteTensor(std::string_view name, const TensorView& view);
void NoteValue(std::string_view name, uint64_t bits);

// Executes a call: observers, implementation, observers.
void Run(const Call& call);
// The implementation alone (fast, or reference where the context asks for it).
void Execute(const Call& call);

class ScopedPhase {
 public:
  explicit ScopedPhase(Phase phase) : before_(CallContext::Current().phase) {
    CallContext::Current().phase = phase;
  }
  ~ScopedPhase() { CallContext::Current().phase = before_; }
  ScopedPhase(const ScopedPhase&) = delete;
  ScopedPhase& operator=(const ScopedPhase&) = delete;

 private:
  Phase before_;
};

// Appends ".name" to the module path (or begins it).
class ScopedModule {
 public:
  explicit ScopedModule(std::string_view name);
  ~ScopedModule() { CallContext::Current().module.resize(length_); }
  ScopedModule(const ScopedModule&) = delete;
  ScopedModule& operator=(const ScopedModule&) = delete;

 private:
  size_t length_;
};

}  // namespace samestep
