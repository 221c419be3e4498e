#include "kernels/call.h"

#include <algorithm>

#include "kernels/registry.h"

namespace samestep {

Call& Call::Add(const TensorView& view, Access access) {
  SAMESTEP_CHECK_LT(argument_count_, static_cast<int>(kernel_->arguments.size()));
  arguments_[static_cast<size_t>(argument_count_++)] = {view, access};
  return *this;
}

Call& Call::Set(const char* name, int64_t value) {
  SAMESTEP_CHECK_LT(attribute_count_, kMaxAttributes);
  attributes_[static_cast<size_t>(attribute_count_++)] = {name, false, value, 0};
  return *this;
}

Call& Call::Set(const char* name, float value) {
  SAMESTEP_CHECK_LT(attribute_count_, kMaxAttributes);
  attributes_[static_cast<size_t>(attribute_count_++)] = {name, true, 0, value};
  return *this;
}

const Attribute& Call::Find(std::string_view name, bool is_float) const {
  for (int i = 0; i < attribute_count_; ++i) {
    const Attribute& a = attributes_[static_cast<size_t>(i)];
    if (a.name == name && a.is_float == is_float) return a;
  }
  CheckFailed(__FILE__, __LINE__, "attribute of a call", fmt::format("{} has no {}", kernel_->name, name));
}

int64_t Call::Integer(std::string_view name) const { return Find(name, false).integer; }
float Call::Real(std::string_view name) const { return Find(name, true).real; }

std::string_view NameOf(Phase phase) {
  constexpr std::string_view kNames[] = {"data",   "forward",   "backward",   "recompute",
                                         "reduce", "optimizer", "checkpoint", "evaluate"};
  return kNames[static_cast<size_t>(phase)];
}

CallContext& CallContext::Current() {
  thread_local CallContext context;
  return context;
}

void CallContext::RemoveObserver(CallObserver* observer) {
  observers_.erase(std::remove(observers_.begin(), observers_.end(), observer), observers_.end());
}

void BeginIteration(int64_t iteration) {
  CallContext& context = CallContext::Current();
  context.iteration = iteration;
  context.micro_batch = 0;
  for (CallObserver* o : context.observers()) o->OnBeginIteration(iteration);
}

void EndIteration() {
  CallContext& context = CallContext::Current();
  for (CallObserver* o : context.observers()) o->OnEndIteration(context.iteration);
}

void NoteTensor(std::string_view name, const TensorView& view) {
  for (CallObserver* o : CallContext::Current().observers()) o->OnTensor(name, view);
}

void NoteValue(std::string_view name, uint64_t bits) {
  for (CallObserver* o : CallContext::Current().observers()) o->OnValue(name, bits);
}

void Run(const Call& call) {
  SAMESTEP_CHECK_EQ(call.argument_count(), static_cast<int>(call.kernel().arguments.size()));
  const CallContext& context = CallContext::Current();
  for (CallObserver* o : context.observers()) o->BeforeCall(call);
  if (context.interceptor != nullptr) {
    context.interceptor->Execute(call);
  } else {
    Execute(call);
  }
  for (CallObserver* o : context.observers()) o->AfterCall(call);
}

void Execute(const Call& call) {
  const Kernel& kernel = call.kernel();
  (CallContext::Current().use_reference ? kernel.reference : kernel.fast)(call);
}

ScopedModule::ScopedModule(std::string_view name) {
  std::string& module = CallContext::Current().module;
  length_ = module.size();
  if (!module.empty()) module += '.';
  module += name;
}

}  // namespace samestep
