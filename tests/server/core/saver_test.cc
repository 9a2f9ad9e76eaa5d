#include "server/core/saver.h"

#include "tests/server/support/part_fixture.h"
#include "tests/server/support/sorted_actions.h"

namespace dslide::saver_test {
namespace {

struct SavingServer : PartFixture {
  Saver saver{""};

  SortedActions Ask(const std::string& name) {
    CheckpointRequest request;
    request.name = name;
    request.directory = "/c/" + name;
    saver.OnRequest(request, seat, std::nullopt, &out);
    return out.Drain();
  }
  static const CheckpointDone& Done(const SortedActions& effects) {
    REQUIRE(effects.to_scheduler.size() == 1);
    return std::get<CheckpointDone>(effects.to_scheduler[0].body);
  }
};

TEST_CASE_FIXTURE(SavingServer, "a checkpoint is written once, and its answer given again") {
  const auto save = Ask("step-1").save;
  REQUIRE(save);
  CHECK(save->directory == "/c/step-1");
  CHECK(save->slots == std::vector<SlotId>{{4}, {5}, {6}, {7}});
  CHECK(save->rows == seat.OwnRows());
  CHECK(saver.saving());
  CHECK(saver.checkpoints() == "/c");
  CHECK(Ask("step-1").to_scheduler.empty());  // it is on its way
  CHECK_FALSE(saver.Take(save->job_id + 1, {}, false, seat, &out));
  CheckpointDone done;
  done.rows = 17;
  CHECK(saver.Take(save->job_id, done, true, seat, &out));
  CHECK(Done(SortedActions(out.Drain())).shard == save->shard);
  const auto again = Ask("step-1");
  CHECK_FALSE(again.save);
  CHECK(Done(again).rows == 17);
  saver.ForgetLast();
  CHECK(Ask("step-1").save);
}

TEST_CASE_FIXTURE(SavingServer, "a checkpoint that is complete tells the longest mark") {
  const auto save = Ask("step-1").save;
  saver.OnMarked({Marked{5}, Marked{9}}, &out);
  CHECK(SortedActions(out.Drain()).work.empty());
  CHECK(saver.Take(save->job_id, {}, false, seat, &out));
  const auto effects = SortedActions(out.Drain());
  CHECK(effects.work.empty());
  CHECK(Done(effects).stall_us == 9);
}

TEST_CASE_FIXTURE(SavingServer,
                  "an executor that cannot mark makes all drop what they have marked") {
  const auto save = Ask("step-1").save;
  saver.OnMarked({Marked{5}, TryLater("stands elsewhere"), Failed("a later error")}, &out);
  const auto dropping = SortedActions(out.Drain());
  REQUIRE(dropping.work.size() == 1);
  CHECK_FALSE(std::get<DropSnapshotJob>(dropping.work[0].job).store_lost);
  CHECK_FALSE(dropping.give_up_save);  // executors may still put rows
  saver.OnDropped(&out);
  const auto given_up = SortedActions(out.Drain()).give_up_save;
  REQUIRE(given_up);
  CHECK(given_up->message == "stands elsewhere");
  CheckpointDone done;
  done.error = given_up->message;
  done.retry = true;
  CHECK(saver.Take(save->job_id, done, true, seat, &out));
  const auto effects = SortedActions(out.Drain());
  CHECK(Done(effects).retry);
  CHECK(effects.work.empty());  // the store has what it had before
  CHECK(Ask("step-1").save);
}

TEST_CASE_FIXTURE(SavingServer,
                  "after the store has failed the executors write all rows, or the changed ones") {
  for (const bool lost : {true, false}) {
    const auto save = Ask(lost ? "step-1" : "step-2").save;
    saver.OnMarked({Marked{5}, Marked{9}}, &out);
    CheckpointDone done;
    done.error = "no space left on device";
    CHECK(saver.Take(save->job_id, done, lost, seat, &out));
    const auto effects = SortedActions(out.Drain());
    CHECK(Done(effects).error == done.error);
    REQUIRE(effects.work.size() == 1);
    CHECK(std::get<DropSnapshotJob>(effects.work[0].job).store_lost == lost);
  }
}

TEST_CASE_FIXTURE(SavingServer, "what cannot be saved now may be asked for again") {
  SUBCASE("another one is being written") {
    CHECK(Ask("step-1").save);
    CHECK(Done(Ask("step-2")).retry);
  }
  SUBCASE("synchronous training stands at another step") {
    seat.config.train.staleness = 0;
    saver.OnRequest({"step-1", "/c/step-1", 7}, seat, 6, &out);
    CHECK(Done(SortedActions(out.Drain())).error == "committed steps: 6 here, 7 asked for");
  }
}

TEST_CASE_FIXTURE(SavingServer, "without its scheduler a server saves its part, and ends") {
  saver = Saver("/c");
  saver.SaveAndLeave("silence", seat, std::nullopt, &out);
  saver.CheckInvariants();
  CHECK(saver.saves_for_itself());
  saver.HearScheduler();
  CHECK(saver.orphaned());  // what it saves has no later batch
  const auto save = SortedActions(out.Drain()).save;
  REQUIRE(save);
  CHECK(save->directory == "/c/orphan-1-0");
  CHECK(saver.Take(save->job_id, {}, false, seat, &out));
  const auto ended = SortedActions(out.Drain());
  REQUIRE(ended.exit);
  CHECK(ended.exit->error().kind == ErrorKind::kTryLater);
  CHECK(ended.to_scheduler.empty());
}

TEST_CASE_FIXTURE(SavingServer, "it waits for the checkpoint that is being written already") {
  const auto save = Ask("step-1").save;
  saver.SaveAndLeave("silence", seat, std::nullopt, &out);
  CHECK_FALSE(SortedActions(out.Drain()).save);
  CHECK(saver.orphaned());
  SUBCASE("and goes on if the scheduler is heard in time") {
    saver.HearScheduler();
    CHECK_FALSE(saver.orphaned());
    CHECK(saver.Take(save->job_id, {}, false, seat, &out));
    CHECK_FALSE(out.exits());
  }
  SUBCASE("and saves its part anew: nobody finds a checkpoint without a manifest") {
    out.Drain();
    CHECK(saver.Take(save->job_id, {}, false, seat, &out));
    const auto effects = SortedActions(out.Drain());
    CHECK_FALSE(effects.exit);
    CHECK(effects.to_scheduler.empty());
    saver.SaveAndLeave("silence", seat, std::nullopt, &out);
    const auto own = SortedActions(out.Drain()).save;
    REQUIRE(own);
    CHECK(own->directory == "/c/orphan-1-0");
    CHECK(saver.Take(own->job_id, {}, false, seat, &out));
    CHECK(SortedActions(out.Drain()).exit);
  }
}

}  // namespace
}  // namespace dslide::saver_test
