#include "scheduler/plan/seat_policy.h"

#include <doctest/doctest.h>

#include "tests/support/numbered_samples.h"

namespace dslide::seat_policy_test {
namespace {

using Kind = SeatDecision::Kind;

RunInputs InputsFor(const Dataset& data, int32_t staleness) {
  RunInputs inputs;
  inputs.config.cluster.servers = 2;
  inputs.config.cluster.slots = 4;
  inputs.config.cluster.heartbeat_ms = 1000;
  inputs.config.cluster.takeover_s = 0;
  inputs.config.cluster.join_timeout_s = 300;
  inputs.config.train.staleness = staleness;
  inputs.train = &data;
  ResolveConfig(50, 10, &inputs.config);
  return inputs;
}

struct Setup {
  explicit Setup(int32_t staleness = -1)
      : data(NumberedSamples(50, 10)),
        inputs(InputsFor(data, staleness)),
        cluster(inputs, false, 0),
        situation{cluster, inputs.config} {}

  void Join(uint64_t server, const std::string& name = "") {
    dslide::Join join;
    join.role = Role::kServer;
    join.name = name;
    cluster.loads.Add({server}, 1, 0);
    cluster.roster.Add(join, {server}, "p" + std::to_string(server), now_ms);
  }
  // Servers 1 and 2 have the plan, and are ready.
  void Start(std::vector<uint16_t> slot_owner = {0, 0, 1, 1}) {
    Join(1);
    Join(2);
    cluster.seats.BeginGeneration(ChooseFirstServers(cluster.roster, 2), std::move(slot_owner), "",
                                  &cluster.roster, now_ms);
    for (const uint64_t server : {1, 2}) cluster.roster.Find({server})->ready = true;
  }
  void Lose(uint64_t server, bool left = false) {
    cluster.seats.Lose({server}, left, now_ms);
    cluster.roster.Remove({server});
  }
  SeatDecision Decide() { return DecideSeats(situation, now_ms); }

  Dataset data;
  RunInputs inputs;
  Cluster cluster;
  SeatSituation situation;
  int64_t now_ms = 1000;
};

TEST_CASE("the first plan waits for cluster.servers servers") {
  Setup run;
  CHECK(run.Decide().kind == Kind::kWait);
  run.Join(1);
  CHECK(run.Decide().kind == Kind::kWait);
  run.Join(2);
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kBegin);
  CHECK(decision.servers.size() == 2);
  CHECK(decision.slot_owner.size() == 4);
}

TEST_CASE("a run to which not enough servers come is given up") {
  Setup run;
  run.Join(1);
  run.now_ms = 300'000;
  CHECK(run.Decide().kind == Kind::kWait);
  run.now_ms = 300'001;
  CHECK(run.Decide().kind == Kind::kNotEnough);
}

TEST_CASE("the pass goes on when all servers of the plan are ready") {
  Setup run;
  run.Start();
  CHECK(run.Decide().kind == Kind::kGo);
  run.situation.in_pass = true;
  CHECK(run.Decide().kind == Kind::kWait);
  run.situation.in_pass = false;
  run.cluster.roster.Find({2})->ready = false;
  CHECK(run.Decide().kind == Kind::kWait);
}

TEST_CASE("one server that does not load its slots is left out after the others have waited") {
  Setup run;
  run.Start();
  run.cluster.roster.Find({2})->ready = false;
  run.cluster.roster.Find({1})->ready_ms = 5000;
  run.now_ms = 305'000;
  CHECK(run.Decide().kind == Kind::kWait);
  run.now_ms = 305'001;
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kLeaveOut);
  CHECK(decision.why == "has not loaded its slots within 300 s of the others");
}

TEST_CASE("a spare takes the seat of a lost server at once") {
  Setup run;
  run.Start();
  run.Lose(2);
  CHECK(run.Decide().kind == Kind::kWait);
  run.Join(3);
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kBegin);
  CHECK(decision.servers[1].server->incarnation == Incarnation{3});
  CHECK(decision.slot_owner == std::vector<uint16_t>{0, 0, 1, 1});
}

TEST_CASE("the others take over after cluster.takeover_s") {
  Setup run;
  run.inputs.config.cluster.takeover_s = 60;
  run.Start();
  run.Lose(2);
  run.now_ms += 59'999;
  CHECK(run.Decide().kind == Kind::kWait);
  run.now_ms += 1;
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kBegin);
  CHECK(decision.servers.size() == 1);
}

TEST_CASE("a run whose server nobody replaces is given up") {
  Setup run;
  run.Start();
  run.Lose(2);
  run.now_ms += 300'001;
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kNotReplaced);
  CHECK(decision.vacant == std::vector<size_t>{1});
}

TEST_CASE("a lost server that had no slots is done without, if no server is writing") {
  Setup run;
  run.Start({0, 0, 0, 0});
  run.Lose(2);
  run.situation.writing = true;
  CHECK(run.Decide().kind == Kind::kWait);
  run.situation.writing = false;
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kGoOnWithout);
  CHECK(decision.vacant == std::vector<size_t>{1});
  Setup in_steps(0);  // a step may wait for its part
  in_steps.Start({0, 0, 0, 0});
  in_steps.Lose(2);
  CHECK(in_steps.Decide().kind == Kind::kWait);
}

TEST_CASE("a run that is stopping does not wait for servers that have left") {
  Setup run;
  run.Start();
  run.situation.stopping = true;
  run.Lose(2);
  CHECK(run.Decide().kind == Kind::kWait);
  run.now_ms += 10'001;
  CHECK(run.Decide().kind == Kind::kStop);
  Setup left;
  left.Start();
  left.situation.stopping = true;
  left.Lose(2, true);
  CHECK(left.Decide().kind == Kind::kStop);
}

TEST_CASE("servers with too little memory have to wait for more servers") {
  Setup run;
  run.Join(1);
  run.Join(2);
  const std::set<Incarnation> none;
  run.cluster.loads.Keep(none);
  for (const uint64_t server : {1, 2}) run.cluster.loads.Add({server}, 1, 1);
  const SeatDecision decision = run.Decide();
  CHECK(decision.kind == Kind::kWait);
  REQUIRE(decision.lacking_bytes);
  CHECK(*decision.lacking_bytes > 0);
}

}  // namespace
}  // namespace dslide::seat_policy_test
