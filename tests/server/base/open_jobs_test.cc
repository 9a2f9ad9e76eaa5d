#include "server/base/open_jobs.h"

#include <doctest/doctest.h>

namespace dslide::open_jobs_test {
namespace {

TEST_CASE("a job is finished when all executors have done their part") {
  OpenJobs jobs;
  jobs.SetExecutors(2);
  const uint64_t first = jobs.Open(SlotLoading{});
  const uint64_t second = jobs.Open(LoadMeasuring{true});
  CHECK(second > first);
  CHECK_FALSE(jobs.Add({second, 1, Loaded{2, 0}}));
  CHECK_FALSE(jobs.Add({first, 0, Done{}}));
  const auto finished = jobs.Add({second, 0, Loaded{1, 0}});
  REQUIRE(finished);
  CHECK(std::get<LoadMeasuring>(finished->purpose).tables);
  REQUIRE(finished->parts.size() == 2);
  CHECK(std::get<Loaded>(finished->parts[0]).rows == 1);
  CHECK(std::get<Loaded>(finished->parts[1]).rows == 2);
  CHECK(jobs.size() == 1);
}

TEST_CASE("the results of forgotten jobs are dropped: ids never repeat") {
  OpenJobs jobs;
  const uint64_t forgotten = jobs.Open(SlotLoading{});
  jobs.Forget();
  CHECK(jobs.size() == 0);
  jobs.SetExecutors(1);
  const uint64_t job_id = jobs.Open(SlotLoading{});
  CHECK(job_id != forgotten);
  CHECK_FALSE(jobs.Add({forgotten, 0, Done{}}));
  CHECK(jobs.Add({job_id, 0, Done{}}));
  CHECK_FALSE(jobs.Add({job_id, 0, Done{}}));
}

}  // namespace
}  // namespace dslide::open_jobs_test
