// Values and errors of Results and Statuses in tests. A failure names the line of the caller.
#pragma once

#include <doctest/doctest.h>

#include <source_location>
#include <string>
#include <utility>

#include "common/base/error.h"

namespace dslide {

inline std::string PlaceOf(const std::source_location& at) {
  return std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": ";
}

// The value of a Result that must have one.
template <typename T>
T Ok(Result<T> result, const std::source_location& at = std::source_location::current()) {
  REQUIRE_MESSAGE(result.ok(), PlaceOf(at), (result.ok() ? "" : result.error().message));
  return *std::move(result);
}

// The message, one line, of a Result or Status that must be an error of this kind.
template <typename Outcome>
std::string MessageOf(const Outcome& outcome, ErrorKind kind = ErrorKind::kBadInput,
                      const std::source_location& at = std::source_location::current()) {
  REQUIRE_MESSAGE(!outcome.ok(), PlaceOf(at), "is no error");
  CHECK_MESSAGE(outcome.error().kind == kind, PlaceOf(at), outcome.error().message);
  CHECK(outcome.error().message.find('\n') == std::string::npos);
  return outcome.error().message;
}

}  // namespace dslide
