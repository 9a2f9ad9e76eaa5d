#include "scheduler/checkpoints/checkpointer.h"

#include <doctest/doctest.h>

#include "common/checkpoint/layout.h"
#include "scheduler/base/events.h"
#include "tests/scheduler/support/actions.h"
#include "tests/support/events.h"
#include "tests/support/numbered_samples.h"

namespace dslide::checkpointer_test {
namespace {

constexpr Incarnation kFirst{1}, kSecond{2};

// Two servers, and an observer who asks for checkpoints.
struct Setup {
  Setup() : data(NumberedSamples(50, 10)) {
    inputs.config.checkpoint.interval_s = 60;
    inputs.run = {77};
    inputs.train = &data;
    inputs.checkpoint_directory = "/checkpoints";
    inputs.train_checksum = 17;
    Join join;
    join.role = Role::kServer;
    roster.Add(join, kFirst, "p1", 0).seated = true;
    roster.Add(join, kSecond, "p2", 0).seated = true;
    join.role = Role::kObserver;
    roster.Add(join, {3}, "observer", 0);
    plan.servers = {{"server", "", kFirst}, {"server-2", "", kSecond}};
    plan.slot_owner = {0, 1};
    checkpointer.emplace(inputs);
  }
  void Begin(uint64_t batches, bool stops = false) {
    checkpointer->Begin(inputs, plan, roster, {{0, batches, 4 * batches, {}}, 0, stops}, &out);
  }
  Status Answer(Incarnation server, const std::string& name, const std::string& error = "",
                bool retry = false, bool nothing_else = false, int64_t now_ms = 0) {
    CheckpointDone done;
    done.name = name;
    done.shard = ShardName(plan.version, server == Incarnation{1} ? 0 : 1);
    done.files = {{"CURRENT", 16, 7}};
    done.bytes = 16;
    done.error = error;
    done.retry = retry;
    checkpointer->OnServerFree(server, done);
    return checkpointer->OnDone(*roster.Find(server), done, nothing_else, now_ms, &out, roster);
  }
  // Writes a whole checkpoint.
  void Write(uint64_t batches) {
    Begin(batches);
    for (const Incarnation server : {kFirst, kSecond}) {
      CHECK(Answer(server, CheckpointName(batches)).ok());
    }
    checkpointer->WriteManifest(&out);
    CHECK(checkpointer->OnManifest({}, false, 0, &out, roster).ok());
    checkpointer->OnComplete(0);
  }

  Dataset data;
  RunInputs inputs;
  Roster roster{1000};
  Plan plan;
  Outbox out{5};
  std::optional<Checkpointer> checkpointer;
};

TEST_CASE("a checkpoint is due after the interval, when one is wanted, and when the run stops") {
  Setup run;
  CHECK_FALSE(run.checkpointer->Due(false, 59999));
  CHECK(run.checkpointer->Due(true, 0));
  run.checkpointer->WantAfterInterval(59999);
  CHECK_FALSE(run.checkpointer->Due(false, 59999));
  run.checkpointer->WantAfterInterval(60000);
  CHECK(run.checkpointer->Due(false, 60000));
  run.Begin(3);
  CHECK_FALSE(run.checkpointer->Due(true, 60000));  // one at a time
}

TEST_CASE("a manifest is written when all servers have their shards, with what counted before") {
  Setup run;
  run.Begin(3);
  const SchedulerEffects asked = run.out.Drain();
  CHECK(asked.sync_ledger);
  REQUIRE(MessagesIn(asked).size() == 2);
  const auto& request = std::get<CheckpointRequest>(*MessagesIn(asked)[0].body);
  CHECK(request.directory == "/checkpoints/" + CheckpointName(3));
  CHECK(run.Answer(kFirst, request.name).ok());
  CHECK_FALSE(run.checkpointer->AwaitsManifest());
  CHECK(run.checkpointer->Writing(run.roster));
  CHECK(run.Answer(kSecond, request.name).ok());
  CHECK(All<action::WriteManifest>(run.out.Drain()).empty());
  CHECK(run.checkpointer->AwaitsManifest());
  run.checkpointer->WriteManifest(&run.out);
  CHECK_FALSE(run.checkpointer->AwaitsManifest());
  const auto done = All<action::WriteManifest>(run.out.Drain());
  REQUIRE(done.size() == 1);
  const Manifest& manifest = done[0].manifest;
  CHECK(manifest.batches == 3);
  CHECK(manifest.ledger_position == 5);
  CHECK(manifest.train_checksum == 17);
  CHECK(manifest.shards.size() == 2);
  CHECK_FALSE(run.checkpointer->IsSaved(3));

  CHECK(run.checkpointer->OnManifest({}, false, 0, &run.out, run.roster).ok());
  CHECK(run.checkpointer->IsSaved(3));
  CHECK(run.checkpointer->newest_directory() == "/checkpoints/" + CheckpointName(3));
  CHECK(run.checkpointer->Restore().samples == 12);
  CHECK_FALSE(run.checkpointer->Writing(run.roster));
  CHECK(run.out.Drain().ledger.size() == 1);
}

TEST_CASE("servers are told which checkpoints stay") {
  Setup run;
  for (const uint64_t batches : {1, 2, 3}) run.Write(batches);
  run.out.Drain();
  run.Begin(4);
  const SchedulerEffects asked = run.out.Drain();
  const auto& request = std::get<CheckpointRequest>(*MessagesIn(asked).at(0).body);
  CHECK(request.keep == std::vector<std::string>{CheckpointName(2), CheckpointName(3)});
}

TEST_CASE("with a quota a checkpoint waits for room, but the last one does not") {
  Setup run;
  run.inputs.config.checkpoint.quota_mb = 1;
  run.checkpointer.emplace(run.inputs);
  CHECK_FALSE(run.checkpointer->WantsRoom(0));
  for (const uint64_t batches : {1, 2}) run.Write(batches);
  run.checkpointer->WantAtOnce(1000);
  CHECK_FALSE(run.checkpointer->Due(false, 1000));
  CHECK(run.checkpointer->Due(true, 1000));
  CHECK(run.checkpointer->Due(false, 1000, true));
  REQUIRE(run.checkpointer->WantsRoom(1000));
  run.checkpointer->SetRoom(false, {CheckpointName(2)}, 1000);
  CHECK_FALSE(run.checkpointer->Due(false, 1000));
  CHECK_FALSE(run.checkpointer->WantsRoom(10999));  // not looked for all the time
  REQUIRE(run.checkpointer->WantsRoom(11000));
  run.checkpointer->SetRoom(true, {CheckpointName(2)}, 11000);
  CHECK_FALSE(run.checkpointer->WantsRoom(11000));
  CHECK(run.checkpointer->Due(false, 11000));
  run.out.Drain();
  run.Begin(3);
  CHECK(std::get<CheckpointRequest>(*MessagesIn(run.out.Drain()).at(0).body).keep ==
        std::vector<std::string>{CheckpointName(2)});  // the other one made room
  run.checkpointer->GiveUp(12000);
  CHECK_FALSE(run.checkpointer->Due(false, 20000));  // room was for one
}

TEST_CASE("what made room is not the oldest checkpoint if a hook reads that") {
  Setup run;
  run.inputs.config.checkpoint.quota_mb = 1;
  run.checkpointer.emplace(run.inputs);
  for (const uint64_t batches : {1, 2, 3}) run.Write(batches);
  run.checkpointer->Hold(CheckpointName(1));
  run.checkpointer->SetRoom(true, {CheckpointName(1), CheckpointName(3)}, 1000);
  run.checkpointer->Hold("");
  run.out.Drain();
  run.Begin(4);
  CHECK(std::get<CheckpointRequest>(*MessagesIn(run.out.Drain()).at(0).body).keep ==
        std::vector<std::string>{CheckpointName(1), CheckpointName(3)});
}

TEST_CASE("servers keep a checkpoint that is held") {
  Setup run;
  for (const uint64_t batches : {1, 2, 3}) run.Write(batches);
  run.checkpointer->Hold(CheckpointName(1));
  run.out.Drain();
  run.Begin(4);
  CHECK(std::get<CheckpointRequest>(*MessagesIn(run.out.Drain()).at(0).body).keep ==
        std::vector<std::string>{CheckpointName(2), CheckpointName(3), CheckpointName(1)});
}

TEST_CASE("a server that cannot take part now has the round repeated a second later") {
  Setup run;
  run.Begin(3);
  CHECK(run.Answer(kFirst, CheckpointName(3), "busy", true, false, 1000).ok());
  CHECK_FALSE(run.checkpointer->round());
  CHECK(run.checkpointer->Writing(run.roster));  // the other one
  CHECK_FALSE(run.checkpointer->Due(false, 1999));
  CHECK(run.checkpointer->Due(false, 2000));
  CHECK(run.Answer(kSecond, CheckpointName(3)).ok());
  CHECK_FALSE(run.checkpointer->Writing(run.roster));
  CHECK(All<action::WriteManifest>(run.out.Drain()).empty());
}

TEST_CASE("a round that fails is tried again half a minute later, or at once if somebody asks") {
  Setup run;
  run.checkpointer->WantFor({3}, 9, 0);
  run.Begin(3);
  run.out.Drain();
  CHECK(run.Answer(kSecond, CheckpointName(3), "disk full", false, false, 1000).ok());
  const SchedulerEffects failed = run.out.Drain();
  REQUIRE(MessagesIn(failed).size() == 1);
  CHECK(MessagesIn(failed)[0].reply_to == 9);
  CHECK(std::get<ErrorReply>(*MessagesIn(failed)[0].body).text.ends_with("server-2: disk full"));
  CHECK(Has(NoticesIn(failed), event::kCheckpointFailed, {{"training", true}, {"last", ""}}));
  CHECK_FALSE(run.checkpointer->Due(false, 30999));
  CHECK(run.checkpointer->Due(false, 31000));
  run.checkpointer->WantAtOnce(2000);
  CHECK(run.checkpointer->Due(false, 2000));
}

TEST_CASE("a run with nothing else to do fails after ten minutes of failed checkpoints") {
  Setup run;
  const auto fail_at = [&](int64_t now_ms) {
    run.Begin(3);
    return run.Answer(kFirst, CheckpointName(3), "disk full", false, true, now_ms);
  };
  CHECK(fail_at(1000).ok());
  CHECK_FALSE(run.checkpointer->Due(true, 10999));
  CHECK(run.checkpointer->Due(true, 11000));
  CHECK(fail_at(601000).ok());
  const Status status = fail_at(601001);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message == "checkpoint " + CheckpointName(3) + ": server: disk full");
}

TEST_CASE("the ten minutes are those of one checkpoint") {
  for (const bool others : {false, true}) {
    Setup run;
    const auto fail_at = [&](int64_t now_ms, bool nothing_else = true) {
      run.Begin(30);
      return run.Answer(kFirst, CheckpointName(30), "disk full", false, nothing_else, now_ms);
    };
    CHECK(fail_at(1000).ok());
    // All go back, and train on.
    if (others) CHECK(fail_at(20'000, false).ok());
    if (!others) run.Write(20);
    CHECK(fail_at(700'000).ok());
    CHECK(fail_at(1'300'000).ok());
    CHECK_FALSE(fail_at(1'300'001).ok());
  }
}

TEST_CASE("who asked is told where the newest checkpoint lies") {
  Setup run;
  run.Write(3);
  run.out.Drain();
  run.checkpointer->WantFor({3}, 9, 0);
  run.checkpointer->WantFor({4}, 1, 0);  // has left
  run.checkpointer->AnswerWaiters("", run.roster, &run.out);
  const SchedulerEffects answers = run.out.Drain();
  REQUIRE(MessagesIn(answers).size() == 1);
  CHECK(MessagesIn(answers)[0].to == "observer");
  CHECK(std::get<CheckpointDone>(*MessagesIn(answers)[0].body).name == CheckpointName(3));
  CHECK_FALSE(run.checkpointer->has_waiters());
}

TEST_CASE("a new generation forgets the round and who writes, and keeps the newest checkpoint") {
  Setup run;
  run.Write(3);
  run.Begin(4, true);
  run.checkpointer->BeginGeneration();
  CHECK_FALSE(run.checkpointer->Writing(run.roster));
  CHECK(run.Answer(kFirst, CheckpointName(4)).ok());  // of the generation before
  CHECK(run.checkpointer->IsSaved(3));
  run.checkpointer->CheckInvariants();
}

TEST_CASE("only servers that have not answered are asked again") {
  Setup run;
  run.Begin(3);
  CHECK(run.Answer(kFirst, CheckpointName(3)).ok());
  run.out.Drain();
  for (const Member* server : run.roster.Seated()) run.checkpointer->SendAgain(*server, &run.out);
  const SchedulerEffects again = run.out.Drain();
  REQUIRE(MessagesIn(again).size() == 1);
  CHECK(MessagesIn(again)[0].to == "p2");
}

TEST_CASE("a server that says what cannot be of its shard has failed") {
  const auto failure = [](auto change) {
    Setup run;
    run.Begin(3);
    CheckpointDone done;
    done.name = CheckpointName(3);
    done.shard = ShardName(run.plan.version, 1);
    done.files = {{"CURRENT", 16, 7}, {"000010.sst", 100, 8}};
    done.bytes = 116;
    change(&done);
    const Member& second = *run.roster.Find(kSecond);
    CHECK(run.checkpointer->OnDone(second, done, false, 0, &run.out, run.roster).ok());
    CHECK(run.Answer(kFirst, CheckpointName(3)).ok());
    if (run.checkpointer->AwaitsManifest()) run.checkpointer->WriteManifest(&run.out);
    const SchedulerEffects effects = run.out.Drain();
    const bool writes = !All<action::WriteManifest>(effects).empty();
    CHECK(writes == run.checkpointer->round());
    CHECK(writes == NoticesIn(effects).empty());
    return NoticesIn(effects).empty() ? "" : NoticesIn(effects).front().text;
  };
  CHECK(failure([](CheckpointDone*) {}).empty());
  const auto refused = [&](const std::string& why, auto change) {
    const std::string line = failure(change);
    CHECK_MESSAGE(
        line.find("server-2: says of its shard what cannot be: " + why) != std::string::npos, line);
    CHECK(line.find('\n') == std::string::npos);
  };
  refused("it is ../../../tmp/evil, not shard-0-1",
          [](CheckpointDone* done) { done->shard = "../../../tmp/evil"; });
  refused("it is shard-0-0, not", [](CheckpointDone* done) { done->shard = "shard-0-0"; });
  refused("it has no files", [](CheckpointDone* done) { done->files.clear(); });
  for (const char* name : {"../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a\nb"}) {
    refused("", [&](CheckpointDone* done) { done->files[0].name = name; });
  }
  refused("CURRENT is in it twice", [](CheckpointDone* done) { done->files[1].name = "CURRENT"; });
  refused("its files have 116 bytes, not 1", [](CheckpointDone* done) { done->bytes = 1; });
  refused("CURRENT: 18446744073709551615 bytes are too many",
          [](CheckpointDone* done) { done->files[0].bytes = UINT64_MAX; });
}

TEST_CASE("who asks for a checkpoint again and again is answered a few times") {
  Setup run;
  run.Write(3);
  run.out.Drain();
  for (uint64_t request = 1; request <= 1000; ++request) run.checkpointer->WantFor({3}, request, 0);
  run.checkpointer->AnswerWaiters("", run.roster, &run.out);
  const SchedulerEffects answers = run.out.Drain();
  REQUIRE(MessagesIn(answers).size() == 4);
  CHECK(MessagesIn(answers).back().reply_to == 1000);
}

}  // namespace
}  // namespace dslide::checkpointer_test
