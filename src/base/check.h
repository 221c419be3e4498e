// check.h: broken invariants stop the program, in release builds too, and print the values.
//
//   SAMESTEP_CHECK(task < count);
//   SAMESTEP_CHECK_EQ(src.shape.elements(), dst.shape.elements());
//
// Never for what a user or a file can cause: that is a Status (status.h).
//
// Determinism: aborts or does nothing.
#pragma once

#include <fmt/format.h>

#include <string>
#include <type_traits>

namespace samestep {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const std::string& values);

template <typename A, typename B>
std::string CheckValues(const A& a, const B& b) {
  if constexpr (fmt::is_formattable<A>::value && fmt::is_formattable<B>::value) {
    return fmt::format("{} against {}", a, b);
  } else {
    return "";
  }
}

}  // namespace samestep

#define SAMESTEP_CHECK(condition)                                  \
  do {                                                             \
    if (!(condition)) [[unlikely]]                                 \
      ::samestep::CheckFailed(__FILE__, __LINE__, #condition, ""); \
  } while (false)
#define SAMESTEP_CHECK_OP_(op, a, b)                                                                  \
  do {                                                                                                \
    const auto samestep_a_ = (a); /* copies: std::min of temporaries is a reference to one of them */ \
    const auto samestep_b_ = (b);                                                                     \
    if (!(samestep_a_ op samestep_b_)) [[unlikely]]                                                   \
      ::samestep::CheckFailed(__FILE__, __LINE__, #a " " #op " " #b,                                  \
                              ::samestep::CheckValues(samestep_a_, samestep_b_));                     \
  } while (false)
#define SAMESTEP_CHECK_EQ(a, b) SAMESTEP_CHECK_OP_(==, a, b)
#define SAMESTEP_CHECK_NE(a, b) SAMESTEP_CHECK_OP_(!=, a, b)
#define SAMESTEP_CHECK_LE(a, b) SAMESTEP_CHECK_OP_(<=, a, b)
#define SAMESTEP_CHECK_LT(a, b) SAMESTEP_CHECK_OP_(<, a, b)
#define SAMESTEP_CHECK_GE(a, b) SAMESTEP_CHECK_OP_(>=, a, b)
