#include "scheduler/balance/advisor.h"

#include <doctest/doctest.h>

#include "scheduler/balance/table_health.h"
#include "tests/scheduler/support/actions.h"

namespace dslide::advisor_test {
namespace {

struct AdvisorRun {
  AdvisorRun() {
    Join join;
    join.cores = 1;
    roster.Add(join, kWorker, "w", 0);
    measures.servers = {{"server", 1, false}};
    measures.run.unit_batches = 8;
    measures.run.batches_left = 1000;
  }
  // The worker reports ten batches a second.
  void Work(int64_t from_ms, int64_t to_ms) {
    for (int64_t ms = from_ms; ms < to_ms; ms += 100) advisor.OnBatch(kWorker, ms);
  }
  void Decide(int64_t now_ms) { advisor.Decide(roster, measures, now_ms, &out); }

  static constexpr Incarnation kWorker{11};
  Roster roster{1000};
  Outbox out{0};
  Advisor advisor;
  Advisor::Measures measures;
};

TEST_CASE("a worker whose speed is not known has short leases and no cap") {
  AdvisorRun run;
  CHECK(run.advisor.LeaseBatches(AdvisorRun::kWorker) == Strategy::kFirstLease);
  CHECK(run.advisor.InFlightCap(AdvisorRun::kWorker) == 0);
  run.Decide(5000);
  REQUIRE(run.advisor.decisions().workers.size() == 1);
  CHECK(run.advisor.LeaseBatches(AdvisorRun::kWorker) == Strategy::kFirstLease);
}

TEST_CASE("decisions are due every five seconds, and early for a new worker's speed") {
  AdvisorRun run;
  CHECK_FALSE(run.advisor.Due(run.roster, 4999));
  CHECK(run.advisor.Due(run.roster, 5000));
  run.Decide(5000);
  run.advisor.OnLease(AdvisorRun::kWorker, 5000);
  CHECK_FALSE(run.advisor.Due(run.roster, 5600));  // its speed is not known yet
  run.Work(5100, 5600);
  CHECK(run.advisor.Due(run.roster, 5600));
  run.Decide(5600);
  CHECK_FALSE(run.advisor.Due(run.roster, 6200));  // it has its decision
  CHECK(run.advisor.Due(run.roster, 10600));
}

TEST_CASE("a lease follows the worker's speed") {
  AdvisorRun run;
  run.advisor.OnLease(AdvisorRun::kWorker, 0);
  run.Work(100, 5000);
  CHECK(run.advisor.BatchesPerSecond(AdvisorRun::kWorker, 5000) ==
        doctest::Approx(10).epsilon(0.05));
  run.Decide(5000);
  CHECK(run.advisor.LeaseBatches(AdvisorRun::kWorker) == 8);  // three seconds are more than a unit
  CHECK_FALSE(run.out.journal().decisions().empty());
}

TEST_CASE("a worker that has left is forgotten") {
  AdvisorRun run;
  run.advisor.OnLease(AdvisorRun::kWorker, 0);
  run.Work(100, 5000);
  run.roster.Remove(AdvisorRun::kWorker);
  run.Decide(5000);
  CHECK(run.advisor.BatchesPerSecond(AdvisorRun::kWorker, 5000) == 0);
  CHECK(run.advisor.LeaseBatches(AdvisorRun::kWorker) == Strategy::kFirstLease);
}

TEST_CASE("an old lease makes a straggler only while servers do not pause") {
  for (const bool pause : {false, true}) {
    AdvisorRun run;
    run.advisor.OnLease(AdvisorRun::kWorker, 0);
    run.Work(100, 5000);
    OpenLease lease;
    lease.holder = AdvisorRun::kWorker;
    lease.granted = 8;
    lease.granted_ms = -60000;
    run.measures.leases = {lease};
    run.measures.servers_pause = pause;
    run.Decide(5000);
    CHECK(run.advisor.decisions().workers[0].straggler == !pause);
  }
}

TEST_CASE("tables are renewed on all servers once, then on those that lag behind") {
  AdvisorRun run;
  Config config;
  ResolveConfig(50, 100000, &config);
  Join join;
  join.role = Role::kServer;
  run.roster.Add(join, {1}, "s1", 0).seated = true;
  Member& second = run.roster.Add(join, {2}, "s2", 0);
  second.seated = true;
  second.heartbeat.bucket_mean = 10;
  second.heartbeat.bucket_p99 = 10000;
  second.heartbeat.bucket_largest = 1 << 30;
  REQUIRE(BetterTables(second.heartbeat, config.hash, config.model.hidden));

  run.advisor.RenewTables(second, config, run.roster, 0, &run.out);
  CHECK(MessagesIn(run.out.Drain()).size() == 2);
  run.advisor.RenewTables(second, config, run.roster, 1, &run.out);
  const SchedulerEffects again = run.out.Drain();
  REQUIRE(MessagesIn(again).size() == 1);
  CHECK(MessagesIn(again)[0].to == "s2");
  CHECK(NoticesIn(again).empty());
  run.advisor.CheckInvariants();
}

}  // namespace
}  // namespace dslide::advisor_test
