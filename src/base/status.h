// status.h: the outcome of anything that a user, a file or a network can make fail.
//
//   Result<Recipe> recipe = LoadRecipe(path);
//   if (!recipe.ok()) return recipe.status();
//   SAMESTEP_ASSIGN_OR_RETURN(Recipe r, LoadRecipe(path));
//   return InvalidError("{}: header length {} exceeds the file's {} bytes; copy the file again", path, n,
//   size);
//
// A message names the value seen, what was expected, and the flag or command that mends it. Broken
// invariants are not statuses: they stop the program (check.h).
//
// Determinism: none needed; messages hold no times, addresses or thread ids.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace samestep {

// Each code has one exit code (docs/guide/exit-codes.md).
enum class StatusCode {
  kOk,         // exit 0
  kInvalid,    // exit 2: a file or stream is damaged, foreign or unlike what was expected
  kNotFound,   // exit 2: a file or name does not exist
  kIo,         // exit 2: the system refused: disk full, permission, broken pipe
  kConflict,   // exit 2: another process holds it, or it exists already
  kUsage,      // exit 3: a flag, recipe field or combination that cannot be right
  kDiverged,   // exit 1: what must be the same is not
  kNotFinite,  // exit 4: training met a loss, norm or tensor that is not finite
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // The process exit code that stands for this status.
  int ExitCode() const {
    switch (code_) {
      case StatusCode::kOk:
        return 0;
      case StatusCode::kDiverged:
        return 1;
      case StatusCode::kUsage:
        return 3;
      case StatusCode::kNotFinite:
        return 4;
      default:
        return 2;
    }
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

#define SAMESTEP_DEFINE_ERROR(Name, Code)                                           \
  template <typename... A>                                                          \
  Status Name(fmt::format_string<A...> format, A&&... args) {                       \
    return Status(StatusCode::Code, fmt::format(format, std::forward<A>(args)...)); \
  }
SAMESTEP_DEFINE_ERROR(InvalidError, kInvalid)
SAMESTEP_DEFINE_ERROR(NotFoundError, kNotFound)
SAMESTEP_DEFINE_ERROR(IoError, kIo)
SAMESTEP_DEFINE_ERROR(ConflictError, kConflict)
SAMESTEP_DEFINE_ERROR(UsageError, kUsage)
SAMESTEP_DEFINE_ERROR(DivergedError, kDiverged)
SAMESTEP_DEFINE_ERROR(NotFiniteError, kNotFinite)
#undef SAMESTEP_DEFINE_ERROR

// A value, or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { SAMESTEP_CHECK(!status_.ok()); }
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    SAMESTEP_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    SAMESTEP_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    SAMESTEP_CHECK(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

#define SAMESTEP_CONCAT_(a, b) a##b
#define SAMESTEP_CONCAT(a, b) SAMESTEP_CONCAT_(a, b)
#define SAMESTEP_RETURN_IF_ERROR(expression)             \
  do {                                                   \
    ::samestep::Status samestep_status_ = (expression);  \
    if (!samestep_status_.ok()) return samestep_status_; \
  } while (false)
#define SAMESTEP_ASSIGN_OR_RETURN(declaration, expression) \
  SAMESTEP_ASSIGN_OR_RETURN_(SAMESTEP_CONCAT(samestep_result_, __LINE__), declaration, expression)
#define SAMESTEP_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return result.status();                         \
  declaration = std::move(result).value()

}  // namespace samestep
