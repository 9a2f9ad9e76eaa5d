#include "common/app/endings.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "common/base/error.h"

namespace dslide::endings_test {
namespace {

TEST_CASE("endings: the table has each exit code once, and those of all errors") {
  const auto codes = ExitMeanings();
  const auto count = [&](int code) { return std::ranges::count(codes, code, &ExitMeaning::code); };
  CHECK(codes.size() == 5);
  CHECK(count(0) == 1);
  for (const ErrorKind kind :
       {ErrorKind::kFailed, ErrorKind::kBadInput, ErrorKind::kTryLater, ErrorKind::kPreempted}) {
    CHECK(count(ExitCode(kind)) == 1);
  }
  CHECK(std::ranges::is_sorted(codes, {}, &ExitMeaning::code));
}

}  // namespace
}  // namespace dslide::endings_test
