#include "server/executor/executor_pool.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <latch>
#include <map>
#include <new>

#include "common/math/kernels.h"
#include "tests/server/support/test_batches.h"

namespace dslide::executor_pool_test {
namespace {

ExecutorPool::Factory Factory() {
  return [](uint32_t i) {
    const Config config = SmallConfig(20, 10, 4);
    const std::vector<SlotId> slots = {{2 * i}, {2 * i + 1}};
    return std::make_unique<Executor>(config, 10, slots, Purpose::kTraining, BestKernels());
  };
}

// Waits for the next result.
ExecutorPool::Outcome Next(ExecutorPool* pool) {
  for (;;) {
    if (auto outcome = pool->Collect()) return std::move(*outcome);
    pollfd ready{pool->fd(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 60000) == 1);
  }
}

TEST_CASE("every job runs on every executor, in the order of submission") {
  ExecutorPool pool(3, Factory());
  REQUIRE(pool.size() == 3);
  constexpr uint64_t kJobs = 50;
  std::map<uint32_t, uint64_t> last;
  for (uint64_t job_id = 1; job_id <= kJobs; ++job_id) {
    pool.Submit(job_id, [job_id](Executor& executor) {
      return Loaded{job_id, executor.output().layer().map().owned()[0].value};
    });
  }
  for (uint64_t n = 0; n < 3 * kJobs; ++n) {
    const auto outcome = Next(&pool);
    const auto& part = std::get<Loaded>(outcome.part);
    CHECK(part.rows == outcome.job_id);
    CHECK(part.memory_bytes == 2 * outcome.executor);  // its own slots
    CHECK(outcome.job_id == ++last[outcome.executor]);
  }
  CHECK_FALSE(pool.Collect());
}

TEST_CASE("more jobs than the queues hold, and results that nobody collects, keep their order") {
  ExecutorPool pool(2, Factory());
  std::latch running(2), release(1);
  pool.Submit(0, [&](Executor&) {
    running.count_down();
    release.wait();
    return Done{};
  });
  running.wait();  // both lanes are busy now
  constexpr uint64_t kJobs = 3 * ExecutorPool::kQueued;
  for (uint64_t job_id = 1; job_id < kJobs; ++job_id) {
    pool.Submit(job_id, [](Executor&) { return Done{}; });
  }
  release.count_down();
  std::map<uint32_t, uint64_t> next;
  for (uint64_t n = 0; n < 2 * kJobs; ++n) {
    const auto outcome = Next(&pool);
    CHECK(outcome.job_id == next[outcome.executor]++);
  }
  CHECK_FALSE(pool.Collect());
}

TEST_CASE("an executor that finds no memory answers every job with the reason") {
  ExecutorPool pool(1, [](uint32_t) -> std::unique_ptr<Executor> { throw std::bad_alloc(); });
  pool.Submit(4, [](Executor&) { return Done{}; });
  const auto outcome = Next(&pool);
  CHECK(outcome.job_id == 4);
  CHECK(std::get<Error>(outcome.part).message.find("not enough memory") == 0);
}

TEST_CASE("a pool ends with jobs still waiting") {
  std::latch running(2), release(1);
  {
    ExecutorPool pool(2, Factory());
    pool.Submit(1, [&](Executor&) {
      running.count_down();
      return Done{};
    });
    running.wait();
    for (uint64_t n = 0; n < 20; ++n) {
      pool.Submit(n, [](Executor&) { return Done{}; });
    }
  }
  CHECK(running.try_wait());
}

}  // namespace
}  // namespace dslide::executor_pool_test
