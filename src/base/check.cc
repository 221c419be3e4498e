#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace samestep {

void CheckFailed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "samestep: internal error at %s:%d: %s does not hold%s%s\n", file, line, condition,
               values.empty() ? "" : ": ", values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace samestep
