// Who gets which slots in a plan that begins at the checkpoint, and what memory has to do with it.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "common/security/token.h"
#include "scheduler/balance/model_size.h"
#include "scheduler/base/events.h"
#include "scheduler/status/status.h"
#include "tests/scheduler/support/moving_cluster.h"
#include "tests/scheduler/support/step_cluster.h"

namespace dslide::first_plan_test {
namespace {

using Phase = SchedulerCore::Phase;

Config LargeModel() {
  Config config = MoveConfig();
  config.model.features = 2'000'000;
  config.model.hidden = 1024;
  REQUIRE(SlotMemoryBytes(config)[0] > (100 << 20));
  return config;
}

TEST_CASE("placement: a server with too little memory is refused with what it lacks") {
  const Config config = LargeModel();
  FakeCluster run(config);
  run.servers.slot_bytes = SlotMemoryBytes(config)[0];
  const auto refused = [&](uint64_t server, double slots) {
    run.memory_bytes = static_cast<uint64_t>(slots * static_cast<double>(run.servers.slot_bytes));
    run.Join(server, Role::kServer);
    const auto* error = std::get_if<ErrorReply>(&run.received["peer-" + std::to_string(server)][0]);
    if (error == nullptr) return std::string();
    CHECK(error->code == ErrorCode::kIncompatible);
    CHECK(run.Noticed(event::kServerRefused, {{"why", error->text}}));
    return error->text;
  };
  CHECK(refused(1, 0.99).starts_with("too little memory: one of 16 slots needs "));
  // Two servers need not be equal, but must have room for the model together.
  CHECK(refused(2, 11.5).empty());
  const std::string text = refused(3, 4.9);
  CHECK(text.starts_with("too little memory: the model needs " +
                         std::to_string((16 * run.servers.slot_bytes >> 20) + 1) + " MB, "));
  CHECK(text.find("beside 1 other, which is 15 of 16 slots") != std::string::npos);
  CHECK(run.core().phase() == Phase::kGathering);
  CHECK(refused(4, 5).empty());
  REQUIRE(run.core().phase() != Phase::kGathering);
  CHECK(SlotsIn(run.core().plan(), 2) == 11);
  CHECK(SlotsIn(run.core().plan(), 4) == 5);
  // One that joins later has to have room for a slot.
  CHECK(refused(5, 0.99).starts_with("too little memory: one of 16 slots"));
  CHECK(refused(6, 1).empty());
}

TEST_CASE("placement: slots of a lost server go nowhere until there is memory for them") {
  const Config config = LargeModel();
  FakeCluster run(config);
  run.servers.slot_bytes = SlotMemoryBytes(config)[0];
  run.memory_bytes = 10 * run.servers.slot_bytes;
  run.Start();
  REQUIRE(run.Work(11));
  run.Silence(2);
  run.Wait(kDeadMs + 10'000);
  CHECK(run.core().plan_version() == 1);
  CHECK(run.status().waiting ==
        "the servers' memory is " + std::to_string((6 * run.servers.slot_bytes >> 20) + 1) +
            " MB less than their slots need (cluster.memory_mb); waiting for more servers");
  CHECK(run.Noticed(event::kWaiting));
  SUBCASE("one more server") {
    run.Join(3, Role::kServer);
    run.Wait(1000);
    CHECK(SlotsIn(run.core().plan(), 3) == 8);
  }
  SUBCASE("the lost one comes back as it was") {
    run.Return(2);
    run.Wait(1000);
    CHECK(run.status().recoveries == 0);
  }
  CHECK(run.core().phase() == Phase::kTraining);
  FinishRun(&run);
}

TEST_CASE("placement: after a loss all have the slots again that they wrote to the checkpoint") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  AskForCheckpoint(&run);
  REQUIRE(run.manifests.size() == 1);
  CHECK(run.manifests[0].slot_shard == run.core().plan().slot_owner);
  const Plan saved = run.core().plan();
  run.Join(3, Role::kServer);
  run.Wait(20'000);
  REQUIRE(SlotsIn(run.core().plan(), 3) > 0);
  SUBCASE("of a server that wrote some") {
    run.Silence(2);
    run.Join(4, Role::kServer, "server-2");
  }
  SUBCASE("of one that came later") { run.Silence(3); }
  run.Wait(kDeadMs + 6000);
  REQUIRE(run.status().recoveries == 1);
  Plan after;  // the first one of the new generation
  for (const LedgerEntry& entry : run.entries) {
    const auto* planned = std::get_if<LedgerPlanned>(&entry);
    if (planned != nullptr && planned->plan.generation > 1 && after.version == 0) {
      after = planned->plan;
    }
  }
  for (size_t slot = 0; slot < after.slot_owner.size(); ++slot) {
    CHECK(after.servers[after.slot_owner[slot]].name == saved.servers[saved.slot_owner[slot]].name);
  }
  FinishRun(&run);
}

TEST_CASE("placement: a lost server, and what its loss costs, can be seen") {
  FakeCluster run(MoveConfig());
  run.Start();
  for (int i = 0; i < 5; ++i) REQUIRE(run.Work(11));
  REQUIRE(run.Lease(11));
  const auto status = [&] { return nlohmann::json::parse(StatusJson(run.status(), {}, {}, "")); };
  run.Silence(2);
  run.Wait(kDeadMs);
  REQUIRE(run.core().phase() == Phase::kGathering);
  auto members = status()["members"];
  REQUIRE(members.size() == 3);
  CHECK(members[0]["name"] == "server-2");
  CHECK(members[0]["state"] == "missing");
  CHECK(members[0]["slots"] == 8);
  const auto departures = status()["departures"];
  REQUIRE(departures.size() == 1);
  CHECK(departures[0]["name"] == "server-2");
  CHECK(departures[0]["lost"] == true);
  CHECK(departures[0]["life"] == fmt::format("{:016x}", LifeOf({2})));
  CHECK_FALSE(departures[0].contains("incarnation"));
  for (const auto& member : members) CHECK_FALSE(member.contains("incarnation"));
  // The worker with the lease is not to blame.
  const Journal journal = run.status().journal;
  CHECK(std::ranges::none_of(journal.decisions(), [](const Decided& decided) {
    return decided.event.Is(event::kWorkerGone);
  }));
  run.Wait(6000);
  CHECK(status()["members"].size() == 2);
  CHECK(run.status().journal.decisions().size() >= 2);
  CHECK(run.Noticed(event::kRolledBack, {{"checkpoint", ""}, {"batches", 5}}));
  FinishRun(&run);
}

}  // namespace
}  // namespace dslide::first_plan_test
