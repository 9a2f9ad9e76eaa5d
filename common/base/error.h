// Expected failures (files, peers, users) are values: Result<T> and Status.
//
// An Error carries one line for the user that names the thing, the reason and the remedy, and a
// kind that the executables turn into an exit code. Programmer errors are not Errors: see check.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace dslide {

enum class ErrorKind {
  kFailed,     // the work could not be done: I/O, peer, resource
  kBadInput,   // usage, configuration or data that the user must correct
  kTryLater,   // this process is fine; something that it needs is not there (yet)
  kPreempted,  // stopped on request, state saved, wants a restart
};

// The process exit code that goes with a kind: 1, 2, 75 and 85.
int ExitCode(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kFailed;
  std::string message;
};

inline Error BadInput(std::string message) { return {ErrorKind::kBadInput, std::move(message)}; }
inline Error Failed(std::string message) { return {ErrorKind::kFailed, std::move(message)}; }
inline Error TryLater(std::string message) { return {ErrorKind::kTryLater, std::move(message)}; }

// A value or an Error. REQUIRES ok() before value access.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return const_cast<Result*>(this)->value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &const_cast<Result*>(this)->value(); }

 private:
  T& value() {
    DSLIDE_CHECK(ok());
    return std::get<T>(state_);
  }

  std::variant<T, Error> state_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return !error_.has_value(); }
  const Error& error() const {
    DSLIDE_CHECK(!ok());
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace dslide

// Returns the Error of `expression` (a Status or Result) from the calling function if it has one.
#define DSLIDE_RETURN_IF_ERROR(expression)                                    \
  do {                                                                        \
    if (auto&& status_ = (expression); !status_.ok()) return status_.error(); \
  } while (false)
