#include "server/executor/job.h"

#include <doctest/doctest.h>

#include "server/executor/executor.h"
#include "tests/server/support/memory_store.h"
#include "tests/server/support/test_batches.h"

namespace dslide::job_test {
namespace {

struct Fixture {
  explicit Fixture(int32_t staleness = -1) {
    config.train.staleness = staleness;
    config.model.active = ActiveSet::kLsh;
    executor.emplace(config, 10, AllSlots(config), Purpose::kTraining, BestKernels());
  }
  JobReply Run(const ExecutorJob& job, uint32_t plan_version = 1) {
    return RunJob(job, plan_version, &*executor);
  }

  Config config = SmallConfig(20, 10, 4);
  std::optional<Executor> executor;
};

RequestJob Ranking(uint32_t plan_version) {
  return {{1}, std::make_shared<const Body>(TopKRequest{Matrix(1, 4), 3, {}, {}}), plan_version};
}

TEST_CASE("a request of an older plan is passed over") {
  Fixture fixture;
  (void)fixture.Run(LoadJob{nullptr});
  const auto reply = [&](uint32_t asked, uint32_t plan) {
    return std::get<Body>(fixture.Run(Ranking(asked), plan));
  };
  CHECK(std::holds_alternative<TopKReply>(reply(2, 2)));
  CHECK(std::get<ErrorReply>(reply(2, 3)).code == ErrorCode::kStalePlan);
  CHECK(std::holds_alternative<TopKReply>(reply(0, 3)));  // it does not depend on the plan
}

TEST_CASE("a load tells rows and memory, or what is wrong with the checkpoint") {
  struct Damaged final : StateSource {
    Status Load(Executor*) override { return BadInput("a damaged file"); }
  };
  Fixture fixture;
  const auto loaded = std::get<Loaded>(fixture.Run(LoadJob{nullptr}));
  CHECK(loaded.rows == 20 + 1 + 10);
  CHECK(loaded.memory_bytes == fixture.executor->MemoryBytes());
  const JobReply refused = fixture.Run(LoadJob{std::make_shared<Damaged>()});
  CHECK(std::get<Error>(refused).message == "a damaged file");
}

TEST_CASE("a mark is set at the steps that the checkpoint is of, and dropped again") {
  Fixture fixture(0);
  (void)fixture.Run(LoadJob{nullptr});
  MemoryStore store;
  const JobReply elsewhere = fixture.Run(MarkJob{&store, 3});
  CHECK(std::get<Error>(elsewhere).kind == ErrorKind::kTryLater);
  CHECK(std::get<Error>(elsewhere).message ==
        "an executor stands at step none, the checkpoint is of step 3");
  CHECK_FALSE(fixture.executor->snapshot_in_progress());
  CHECK(std::holds_alternative<Marked>(fixture.Run(MarkJob{&store, std::nullopt})));
  CHECK(fixture.executor->snapshot_in_progress());
  CHECK(std::holds_alternative<Done>(fixture.Run(DropSnapshotJob{.store_lost = false})));
  CHECK_FALSE(fixture.executor->snapshot_in_progress());
}

TEST_CASE("parts of a reply are bodies, and an error is refused") {
  const auto bodies = BodiesOf({Body(Ack{}), Failed("no memory")});
  REQUIRE(bodies.size() == 2);
  CHECK(bodies[0] == Body(Ack{}));
  CHECK(bodies[1] == Body(ErrorReply{ErrorCode::kRefused, "no memory"}));
}

}  // namespace
}  // namespace dslide::job_test
