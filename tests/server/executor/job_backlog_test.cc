#include "server/executor/job_backlog.h"

#include <doctest/doctest.h>

namespace dslide::job_backlog_test {
namespace {

TEST_CASE("jobs go in their order while every executor has room") {
  JobBacklog<int> backlog(2, 2);
  for (int job = 1; job <= 4; ++job) backlog.Add(job);
  CHECK(backlog.Next() == 1);
  CHECK(backlog.Next() == 2);
  CHECK_FALSE(backlog.Next());
  CHECK(backlog.waiting() == 2);
  SUBCASE("the slowest executor decides") {
    backlog.Collected(0);
    backlog.Collected(0);
    CHECK_FALSE(backlog.Next());
    backlog.Collected(1);
    CHECK(backlog.Next() == 3);
    CHECK_FALSE(backlog.Next());
  }
  SUBCASE("a later job does not overtake those that wait") {
    backlog.Collected(0);
    backlog.Collected(1);
    backlog.Add(5);
    CHECK(backlog.Next() == 3);
    CHECK_FALSE(backlog.Next());
    CHECK(backlog.waiting() == 2);
  }
}

TEST_CASE("a backlog is idle when all outcomes were collected") {
  JobBacklog<int> backlog(2, 8);
  CHECK(backlog.idle());
  CHECK_FALSE(backlog.Next());
  backlog.Add(1);
  CHECK_FALSE(backlog.idle());
  CHECK(backlog.Next() == 1);
  backlog.Collected(1);
  CHECK_FALSE(backlog.idle());
  backlog.Collected(0);
  CHECK(backlog.idle());
}

}  // namespace
}  // namespace dslide::job_backlog_test
