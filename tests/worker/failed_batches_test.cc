#include "worker/failed_batches.h"

#include <doctest/doctest.h>

namespace dslide::failed_batches_test {
namespace {

constexpr int64_t kMinute = FailedBatches::kEveryMs;

TEST_CASE("failed batches: the first is said at once, those of the minute after it in one line") {
  FailedBatches failed;
  CHECK_FALSE(failed.Due(0));
  CHECK(failed.Add("one", 5) == "one");
  CHECK_FALSE(failed.Due(5 + kMinute));  // nothing more
  CHECK_FALSE(failed.Add("two", 6));
  CHECK_FALSE(failed.Add("three", 7));
  CHECK_FALSE(failed.Due(4 + kMinute));
  CHECK(failed.Due(5 + kMinute) == "2 batches more ended early in 60 s, the last: three");
  CHECK_FALSE(failed.Due(6 + kMinute));
  CHECK_FALSE(failed.Add("four", 6 + kMinute));
  CHECK(failed.Due(5 + 2 * kMinute) == "1 batch more ended early in 60 s, the last: four");
  CHECK(failed.Add("five", 5 + 3 * kMinute) == "five");
}

}  // namespace
}  // namespace dslide::failed_batches_test
