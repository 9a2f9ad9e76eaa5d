#include "scheduler/plan/cluster.h"
#include "scheduler/base/events.h"
#include "tests/scheduler/support/actions.h"
#include "tests/support/events.h"

#include <doctest/doctest.h>

#include <utility>

#include "tests/support/numbered_samples.h"

namespace dslide::cluster_test {
namespace {

RunInputs InputsFor(const Dataset& data, int32_t staleness) {
  RunInputs inputs;
  inputs.config.cluster.servers = 2;
  inputs.config.cluster.slots = 4;
  inputs.config.cluster.heartbeat_ms = 1000;
  inputs.config.train.staleness = staleness;
  inputs.train = &data;
  ResolveConfig(50, 10, &inputs.config);
  return inputs;
}

struct Setup {
  explicit Setup(int32_t staleness = -1)
      : data(NumberedSamples(50, 10)),
        inputs(InputsFor(data, staleness)),
        cluster(inputs, false, 0) {}

  Cluster::Joined Join(uint64_t member, Role role, bool reached = true,
                       const std::string& name = "") {
    dslide::Join join;
    join.name = name;
    join.role = role;
    join.address = "tcp://host:" + std::to_string(member);
    const Message message{{{77}, {member}, 1, 0, 0}, join};
    return cluster.OnJoin({"p" + std::to_string(member), message, reached}, inputs, now_ms, &out);
  }
  // Servers 1 to `servers` have the plan, worker 11 trains.
  void Start(std::vector<uint16_t> slot_owner = {0, 0, 1, 1}, size_t servers = 2) {
    for (uint64_t server = 1; server <= servers; ++server) Join(server, Role::kServer);
    Join(11, Role::kWorker);
    cluster.seats.BeginGeneration(ChooseFirstServers(cluster.roster, servers),
                                  std::move(slot_owner), "", &cluster.roster, now_ms);
    out.Drain();
  }
  // What is said when a server leaves, after "left; ".
  std::string LeaveLine(uint64_t server) {
    cluster.Drop(*cluster.roster.Find({server}), false, "left", 0, 5, &out);
    const std::string line = NoticesIn(out.Drain()).at(0).text;
    return line.substr(line.find("left; ") + 6);
  }
  std::string Waiting() { return cluster.WaitingLine(inputs.config.cluster); }

  Dataset data;
  RunInputs inputs;
  Cluster cluster;
  Outbox out{0};
  int64_t now_ms = 0;
};

TEST_CASE("a server is a member once it was reached") {
  Setup run;
  CHECK(run.Join(1, Role::kServer, false).member == nullptr);
  CHECK(All<action::Probe>(run.out.Drain()).size() == 1);
  const Cluster::Joined joined = run.Join(1, Role::kServer, true);
  REQUIRE(joined.member != nullptr);
  CHECK(joined.is_new);
  const SchedulerEffects welcome = run.out.Drain();
  REQUIRE(MessagesIn(welcome).size() == 1);
  CHECK(std::get<JoinReply>(*MessagesIn(welcome)[0].body).train_samples == 50);
  CHECK_FALSE(run.Join(1, Role::kServer, false).is_new);
}

TEST_CASE("a server that is not reached in time is refused") {
  Setup run;
  run.Join(1, Role::kServer, false);
  run.out.Drain();
  run.now_ms = 10'000;
  run.cluster.TendApplicants(run.now_ms, &run.out);
  const SchedulerEffects refused = run.out.Drain();
  REQUIRE(MessagesIn(refused).size() == 1);
  CHECK(std::get<ErrorReply>(*MessagesIn(refused)[0].body).code == ErrorCode::kRefused);
  CHECK(Has(NoticesIn(refused), event::kServerRefused));
}

TEST_CASE("a server that asks while too many do is not answered, and asks again") {
  Setup run;
  for (uint64_t server = 1; server <= Admission::kMostApplicants; ++server) {
    run.Join(server, Role::kServer, false);
  }
  run.out.Drain();
  CHECK(run.Join(99, Role::kServer, false).member == nullptr);
  CHECK(MessagesIn(run.out.Drain()).empty());  // a refusal would end it
  run.cluster.admission.Answered({1}, {1});
  run.Join(99, Role::kServer, false);
  CHECK(All<action::Probe>(run.out.Drain()).size() == 1);
}

TEST_CASE("what dslide doctor asks for is refused without a line") {
  Setup run;
  run.Join(1, Role::kServer, false, kDoctorName);
  run.out.Drain();
  run.now_ms = 10'000;
  run.cluster.TendApplicants(run.now_ms, &run.out);
  const SchedulerEffects refused = run.out.Drain();
  CHECK(MessagesIn(refused).size() == 1);
  CHECK(NoticesIn(refused).empty());
}

TEST_CASE("a worker that is gone has its batches dropped by the servers") {
  Setup run;
  run.Start();
  run.cluster.Drop(*run.cluster.roster.Find({11}), true, "is silent", 3, 5, &run.out);
  const SchedulerEffects effects = run.out.Drain();
  CHECK(MessagesIn(effects).size() == 2);
  CHECK(std::get<DropBatches>(*MessagesIn(effects)[0].body).incarnation == Incarnation{11});
  CHECK(Has(NoticesIn(effects), event::kWorkerGone,
            {{"worker", "worker"}, {"why", "is silent"}, {"leases", 3}}));
  CHECK(run.out.journal().departures().back().lost);
  CHECK(run.cluster.roster.Find({11}) == nullptr);
}

TEST_CASE("a server that is gone leaves its seat vacant") {
  Setup run;
  run.Start();
  run.cluster.Drop(*run.cluster.roster.Find({2}), false, "left", 0, 5, &run.out);
  CHECK(run.cluster.seats.Vacant(run.cluster.roster) == std::vector<size_t>{1});
  CHECK(NoticesIn(run.out.Drain())
            .at(0)
            .text.ends_with("left; waiting 30 s for it or another server; then the others take its "
                            "slots, from the last "
                            "checkpoint (cluster.takeover_s)"));
  CHECK(run.cluster.WaitingLine(run.inputs.config.cluster)
            .starts_with("waiting for server-2 or a replacement"));
}

TEST_CASE("what comes after the loss of a server is said as it will be") {
  const std::string patience = "waiting 30 s for it or another server; then the others take";
  const std::string end = "waiting 300 s for it or another server; then the run stops";
  SUBCASE("it had no slots") {
    Setup run;
    run.Start({0, 0, 0, 0});
    CHECK(run.LeaveLine(2) == "it had no slots, and the others go on without it");
    CHECK(run.Waiting() == "going on without server-2, which had no slots");
  }
  SUBCASE("it had no slots, but a step may wait for it") {
    Setup run(0);
    run.Start({0, 0, 0, 0});
    CHECK(run.LeaveLine(2).starts_with(patience));
  }
  SUBCASE("as many as the run asks for are left") {
    Setup run;
    run.Start({0, 0, 1, 2}, 3);
    CHECK(run.LeaveLine(3) ==
          "the others go on with its slots from the last checkpoint (cluster.servers are left)");
    CHECK(run.Waiting() ==
          "waiting for server-3 or a replacement (others take over once it is given up)");
    CHECK(run.LeaveLine(2).starts_with(patience));
    CHECK(run.Waiting().ends_with("(after 30 s the others take over)"));
    CHECK(run.LeaveLine(1).starts_with(end));  // nobody is left
    CHECK(run.Waiting().ends_with("(after 300 s the run stops, to be resumed)"));
  }
  SUBCASE("there is a spare") {
    Setup run;
    run.Start();
    run.Join(3, Role::kServer);
    run.out.Drain();
    CHECK(run.LeaveLine(2) ==
          "another server takes its place, and all go on from the last checkpoint");
  }
}

TEST_CASE("a server that is left out may not come back at once") {
  Setup run;
  run.Start();
  run.cluster.LeaveOut({run.cluster.roster.Find({2})}, "is deaf", 5, &run.out);
  CHECK(std::get<Shutdown>(*MessagesIn(run.out.Drain()).at(0).body).exit_code == 75);
  const Cluster::Joined again = [&] {
    dslide::Join join;
    join.role = Role::kServer;
    join.address = "tcp://host:2";
    return run.cluster.OnJoin({"p", {{{77}, {3}, 1, 0, 0}, join}, true}, run.inputs, 6, &run.out);
  }();
  CHECK(again.member == nullptr);
  CHECK(std::get<ErrorReply>(*MessagesIn(run.out.Drain()).at(0).body).text.find("is deaf") !=
        std::string::npos);
}

TEST_CASE("a member may not join as another role, nor with the incarnation of a seat") {
  Setup run;
  run.Start();
  const auto join_as = [&](Role role, uint64_t incarnation) {
    dslide::Join join;
    join.role = role;
    join.address = "tcp://host:9";
    const Message message{{{77}, {incarnation}, 1, 0, 0}, join};
    return run.cluster.OnJoin({"p", message, true}, run.inputs, 6, &run.out).member;
  };
  CHECK(join_as(Role::kServer, 11) == nullptr);
  CHECK(join_as(Role::kWorker, 2) == nullptr);
  run.cluster.roster.Remove({2});  // its seat is vacant
  CHECK(join_as(Role::kObserver, 2) == nullptr);
  CHECK(join_as(Role::kObserver, 40) != nullptr);
}

TEST_CASE("an observer that has been silent the longest makes room for another one") {
  Setup run;
  run.Start();
  const auto join = [&](uint64_t incarnation, int64_t now_ms) {
    dslide::Join request;
    request.role = Role::kObserver;
    const Message message{{{77}, {incarnation}, 1, 0, 0}, request};
    const PeerId peer = "o" + std::to_string(incarnation);
    return run.cluster.OnJoin({peer, message, true}, run.inputs, now_ms, &run.out).member !=
           nullptr;
  };
  for (uint64_t i = 0; i < kMostObservers; ++i) CHECK(join(1000 + i, 10));
  for (uint64_t i = 0; i < kMostObservers; ++i) {
    if (i == 7) continue;
    run.cluster.roster.Heard({1000 + i}, "o" + std::to_string(1000 + i), 20);
  }
  run.out.Drain();
  CHECK(join(5000, 30));
  CHECK(run.cluster.roster.Find({1007}) == nullptr);
  CHECK(run.cluster.roster.Count(Role::kObserver) == kMostObservers);
  const auto sent = MessagesIn(run.out.Drain());
  CHECK(std::get<Shutdown>(*sent.at(0).body).reason.find("silent the longest") !=
        std::string::npos);
}

TEST_CASE("a server is unheard if no worker with batches in flight hears it") {
  Setup run;
  run.Start();
  run.Join(12, Role::kWorker);
  const auto unheard = [&](int64_t now_ms) {
    for (const uint64_t worker : {11, 12}) {
      run.cluster.roster.Heard({worker}, "p" + std::to_string(worker), now_ms);
    }
    return run.cluster.Unheard(60'000, now_ms).size();
  };
  for (const uint64_t worker : {11, 12}) {
    Heartbeat& beat = run.cluster.roster.Find({worker})->heartbeat;
    beat.batches_in_flight = 1;
    beat.silent_servers = {2};
  }
  CHECK(unheard(59'999) == 0);  // it may be slow
  CHECK(unheard(60'000) == 1);
  run.cluster.roster.Find({2})->trained_ms = 30'000;
  CHECK(unheard(60'000) == 0);
  run.cluster.roster.Find({2})->trained_ms = 0;
  run.cluster.roster.Find({12})->heartbeat.silent_servers.clear();
  CHECK(unheard(60'000) == 0);  // one hears it
  run.cluster.roster.Find({12})->heartbeat.batches_in_flight = 0;
  CHECK(unheard(60'000) == 1);  // that one does not ask
}

TEST_CASE("time in which nobody has batches in flight is no stall of a newcomer") {
  Setup run;
  run.Start();
  run.cluster.loads.Add({2}, 1, 0, true);
  Heartbeat& beat = run.cluster.roster.Find({11})->heartbeat;
  const auto stalling = [&](int64_t until_ms) {
    size_t found = 0;
    for (; run.now_ms <= until_ms; run.now_ms += 1000) {
      run.cluster.roster.Heard({11}, "p11", run.now_ms);
      found = run.cluster.Stalling(20'000, false, run.now_ms).size();
    }
    return found;
  };
  run.cluster.seats.OnBatch(1000);
  CHECK(stalling(600'000) == 0);
  beat.batches_in_flight = 1;
  CHECK(stalling(619'000) == 0);
  beat.batches_in_flight = 0;
  CHECK(stalling(700'000) == 0);
  beat.batches_in_flight = 1;
  CHECK(stalling(701'000) == 1);
  run.cluster.seats.OnBatch(run.now_ms);
  CHECK(stalling(run.now_ms + 18'000) == 0);
}

TEST_CASE("a newcomer that comes back, or leaves, has as much to prove as before") {
  Setup run;
  run.Start();
  run.cluster.loads.Add({2}, 1, 0, true);
  const auto added = [&](uint64_t server) {
    run.cluster.roster.Find({server})->added = true;
    return run.cluster.roster.Find({server});
  };
  SUBCASE("it comes back") {
    run.cluster.Drop(*added(2), true, "is silent", 0, 5, &run.out);
    run.Join(2, Role::kServer);
    REQUIRE(run.cluster.roster.Find({2}) != nullptr);
    CHECK(run.cluster.loads.Unproven({2}));
  }
  SUBCASE("it leaves twice") {
    for (int time = 0; time < 2; ++time) {
      run.cluster.Drop(*added(2), false, "left", 0, 5, &run.out);
      CHECK(run.cluster.admission.WhyBarred("tcp://host:2", 5).empty() == (time == 0));
      if (time > 0) break;
      run.Join(2, Role::kServer);
      run.cluster.seats.Return({2}, 5);
      run.cluster.roster.Find({2})->seated = true;
    }
  }
}

TEST_CASE("servers are unready only beside others that are ready") {
  Setup run;
  run.Start();
  CHECK(run.cluster.Unready().empty());
  run.cluster.roster.Find({1})->ready = true;
  REQUIRE(run.cluster.Unready().size() == 1);
  CHECK(run.cluster.Unready()[0]->incarnation == Incarnation{2});
  CHECK(run.cluster.WaitingLine(run.inputs.config.cluster) ==
        "have 2 servers, loading slots: server-2");
}

TEST_CASE("before the first plan the line says how many servers are missing") {
  Setup run;
  run.Join(1, Role::kServer);
  CHECK(run.cluster.WaitingLine(run.inputs.config.cluster) ==
        "have 1 of 2 servers and 0 workers, waiting for 1 more server");
}

TEST_CASE("what makes no sense, and who comes too often, does not join") {
  Setup run;
  const auto refusal = [&](const std::string& peer, uint64_t member, const dslide::Join& join) {
    const Message message{{{77}, {member}, 1, 0, 0}, join};
    const bool joined =
        run.cluster.OnJoin({peer, message, false}, run.inputs, run.now_ms, &run.out).member !=
        nullptr;
    const SchedulerEffects effects = run.out.Drain();
    REQUIRE(MessagesIn(effects).size() <= 1);
    const auto* error = MessagesIn(effects).empty()
                            ? nullptr
                            : std::get_if<ErrorReply>(&*MessagesIn(effects)[0].body);
    CHECK(joined == (error == nullptr && !MessagesIn(effects).empty()));
    return error == nullptr ? ErrorReply{ErrorCode::kMalformed, ""} : *error;
  };
  dslide::Join join;
  join.name = std::string(1 << 20, 'x');
  CHECK(refusal("p", 1, join).code == ErrorCode::kIncompatible);
  CHECK(run.cluster.roster.Count(Role::kWorker) == 0);
  join.name = "w";
  for (uint64_t member = 1; member <= 4; ++member) CHECK(refusal("p", member, join).text.empty());
  CHECK(refusal("p", 5, join).text ==
        "4 members have joined by this connection, which is the most");
  CHECK(refusal("p", 4, join).text.empty());  // again
  for (uint64_t member = 5; member <= 1000; ++member) {
    CHECK(refusal("p" + std::to_string(member), member, join).text.empty());
  }
  // No answer: it asks again, and would end at a refusal.
  CHECK(refusal("late", 1001, join).text.empty());
  CHECK(run.cluster.roster.Find({1001}) == nullptr);
  run.now_ms += 1000;
  CHECK(refusal("late", 1001, join).text.empty());
  CHECK(run.cluster.roster.Find({1001}) != nullptr);
}

TEST_CASE("the key of a server that was left out is barred with its address, if it is its own") {
  Setup run;
  run.inputs.keyed = true;
  Cluster cluster(run.inputs, false, 0);
  const auto join = [&](uint64_t member, const std::string& address) {
    dslide::Join asked;
    asked.role = Role::kServer;
    asked.address = address;
    const Message message{{{77}, {member}, 1, 0, 0}, asked};
    return cluster.OnJoin({"p" + std::to_string(member), message, true}, run.inputs, 0, &run.out);
  };
  constexpr uint64_t kKey = uint64_t{7} << 32, kShared = uint64_t{8} << 32;
  REQUIRE(join(kKey + 1, "tcp://h:1").member != nullptr);
  REQUIRE(join(kShared + 1, "tcp://h:2").member != nullptr);
  REQUIRE(join(kShared + 2, "tcp://h:3").member != nullptr);
  for (const uint64_t member : {kKey + 1, kShared + 1}) {
    cluster.LeaveOut({cluster.roster.Find({member})}, "is silent", 0, &run.out);
  }
  CHECK(join(kKey + 2, "tcp://h:4").member == nullptr);
  CHECK(join(kShared + 3, "tcp://h:2").member == nullptr);
  CHECK(join(kShared + 4, "tcp://h:5").member != nullptr);
}

}  // namespace
}  // namespace dslide::cluster_test
