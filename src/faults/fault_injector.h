// fault_injector.h: a planted fault, which strikes one call of a run and says so. For tests and
// demonstrations.
//
//   FaultInjector injector(spec);    // from here on calls of this thread pass through it
//   ... train ...
//   if (!injector.struck()) ...      // the run never came to that call
//
// It writes to standard error when it is planted, when it strikes (with the number of elements that changed),
// and at its end if it never struck.
//
// Determinism: all kinds but jitter strike the same bits in every run.
#pragma once

#include <string>
#include <vector>

#include "faults/fault_spec.h"
#include "kernels/call.h"

namespace samestep {

class FaultInjector : public CallInterceptor {
 public:
  explicit FaultInjector(FaultSpec spec);
  ~FaultInjector() override;
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  void Execute(const Call& call) override;
  bool struck() const { return struck_; }
  int64_t elements_changed() const { return elements_changed_; }

 private:
  int OutputOf(const Call& call) const;
  void Strike(const Call& call);

  FaultSpec spec_;
  int64_t iteration_ = -1, occurrence_ = 0;  // of the next matching call
  std::string earlier_;                      // the output's bytes one iteration before (stale)
  bool struck_ = false;
  int64_t elements_changed_ = 0;
};

}  // namespace samestep
