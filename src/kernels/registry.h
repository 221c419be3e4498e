// registry.h: the one table of kernels.
//
//   // kernels/rms_norm/rms_norm.cc
//   const Kernel& kRmsNormForward = RegisterKernel({
//       .name = "rms_norm.forward", .version = 1,
//       .arguments = {{"src", Access::kRead}, {"gain", Access::kRead}, {"dst", Access::kWrite}, {"rstd",
//       Access::kWrite}}, .reference = RmsNormForwardReference, .fast = RmsNormForwardFast, .problems =
//       RmsNormForwardProblems, .summary = "y = x * r * g; row sum in sixteen stripes"});
//
// From it come the recorder's names, the tests of each kernel against its reference, the benchmarks, the
// fault injector and the op catalogue. There is no second list: an entry that no test can build a problem for
// fails.
//
// Determinism: the table is sorted by name, whatever the order of registration was.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/call.h"

namespace samestep {

struct ArgumentSpec {
  const char* role;  // "src", "weights", "diff_dst"
  Access access;     // as it usually is; a call may differ (an accumulator that is set, not continued)
};

// What a test or benchmark puts into an argument before the call.
enum class Fill : uint8_t {
  kNormal,    // about N(0, 1) * scale
  kWild,      // exponents from -8 to 8, with zeros of both signs and subnormals
  kPositive,  // uniform in (0.1, 1.1) * scale
  kZero,
  kTokens,   // i32 in [0, scale)
  kTargets,  // i32 in [0, scale), one in eight -1 (masked)
  kOutput,   // poison (NaN), which the call must overwrite
};

struct ProblemArgument {
  Shape shape;  // rank 0: the optional argument is absent
  Fill fill = Fill::kNormal;
  double scale = 1;
  DType dtype = DType::kF32;
  int64_t row_padding = 0;  // further elements between rows, which the call must leave alone
  bool has_access = false;  // whether `access` replaces the specification's
  Access access = Access::kRead;
};

// One descriptor of arguments and attributes that a kernel is tested and timed on.
struct Problem {
  std::string label;
  std::vector<ProblemArgument> arguments;
  std::vector<Attribute> attributes;
  bool timed = false;  // large: for benchmarks, not for the fast tests
  // Makes inputs that must fit each other (outputs of a forward pass) from the filled ones; may be empty.
  void (*prepare)(const Call& call) = nullptr;
};

struct Kernel {
  std::string name;  // "linear.forward"
  int version = 1;   // of its bits and arguments
  std::vector<ArgumentSpec> arguments;
  void (*reference)(const Call& call) = nullptr;  // scalar, reads like the numerics page
  void (*fast)(const Call& call) = nullptr;
  std::vector<Problem> (*problems)() = nullptr;
  std::string summary;  // what it computes and the order of its sums, for the op catalogue
};

const Kernel& RegisterKernel(Kernel kernel);
const Kernel* FindKernel(std::string_view name);
std::vector<const Kernel*> AllKernels();  // sorted by name

// Short forms for problem tables.
Attribute IntegerAttribute(const char* name, int64_t value);
Attribute RealAttribute(const char* name, float value);

}  // namespace samestep
