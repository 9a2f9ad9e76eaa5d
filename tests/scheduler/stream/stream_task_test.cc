#include "scheduler/stream/stream_task.h"

#include <doctest/doctest.h>

namespace dslide::stream_task_test {
namespace {

TEST_CASE("stream: without orders the thread reads until one segment is ahead") {
  StreamSituation now{.newest = 3};
  CHECK(NextTask(now) == StreamTask::kRead);
  now.has_lines = true;
  now.is_old = true;  // nobody waits for a part of a segment
  CHECK(NextTask(now) == StreamTask::kRead);
  now.is_full = true;
  CHECK(NextTask(now) == StreamTask::kMake);
  now = {.newest = 4, .is_made = true};
  CHECK(NextTask(now) == StreamTask::kStore);
  now = {.newest = 4, .is_ahead = true, .has_lines = true, .is_full = true};
  CHECK(NextTask(now) == StreamTask::kAwait);
}

TEST_CASE("stream: training gets the segment ahead, an earlier one again, or a part after a time") {
  CHECK(NextTask({.wanted = 4, .newest = 4, .is_ahead = true}) == StreamTask::kDeliver);
  CHECK(NextTask({.wanted = 4, .newest = 4}) == StreamTask::kReload);
  CHECK(NextTask({.wanted = 2, .newest = 4, .is_ahead = true}) == StreamTask::kReload);
  StreamSituation now{.wanted = 5, .newest = 4, .has_lines = true};
  CHECK(NextTask(now) == StreamTask::kRead);
  now.is_old = true;
  CHECK(NextTask(now) == StreamTask::kMake);
}

TEST_CASE("stream: after its end the waiting lines are a segment, then training hears of the end") {
  StreamSituation now{.newest = 4, .has_lines = true, .ended = true};
  CHECK(NextTask(now) == StreamTask::kMake);
  now = {.wanted = 5, .newest = 4, .ended = true};
  CHECK(NextTask(now) == StreamTask::kEnd);
  now.wanted = 0;
  CHECK(NextTask(now) == StreamTask::kAwait);
}

TEST_CASE("stream: after a failure nothing is made or read, and earlier segments still come") {
  StreamSituation now{
      .newest = 4, .has_lines = true, .is_full = true, .ended = true, .failed = true};
  CHECK(NextTask(now) == StreamTask::kAwait);
  now.wanted = 5;
  CHECK(NextTask(now) == StreamTask::kEnd);
  now.wanted = 3;
  CHECK(NextTask(now) == StreamTask::kReload);
}

}  // namespace
}  // namespace dslide::stream_task_test
