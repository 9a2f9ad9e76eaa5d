#include "scheduler/core/generation.h"

#include <doctest/doctest.h>

#include "tests/scheduler/support/actions.h"
#include "tests/support/numbered_samples.h"

namespace dslide::generation_test {
namespace {

// Three batches in units of one; workers 11 and 12.
struct Setup {
  Setup() : train(NumberedSamples(12, 10)) {
    run.config.train.epochs = 1;
    run.config.train.batch = 4;
    run.config.train.unit_batches = 1;
    run.config.train.staleness = -1;
    run.train = &train;
    for (const uint64_t worker : {11, 12}) {
      roster.Add(Join{}, {worker}, "p" + std::to_string(worker), 0);
    }
    generation.pass.Begin(run, &out);
  }
  bool Give(uint64_t worker, uint64_t sequence) {
    return generation.GiveLease({{worker}, sequence, false}, run, roster, offences, 0, &advisor,
                                &out);
  }
  void Serve(int64_t now_ms = 0) {
    generation.ServePending(run, roster, offences, now_ms, &advisor, &out);
  }

  Dataset train;
  RunContext run;
  Roster roster{1000};
  Advisor advisor;
  Offences offences;
  Outbox out{0};
  Generation generation{CountedWork()};
};

TEST_CASE("a lease answers the request") {
  Setup run;
  CHECK(run.Give(11, 7));
  const SchedulerEffects effects = run.out.Drain();
  REQUIRE(MessagesIn(effects).size() == 1);
  CHECK(MessagesIn(effects)[0].to == "p11");
  CHECK(MessagesIn(effects)[0].reply_to == 7);
  CHECK(std::holds_alternative<LeaseGrant>(*MessagesIn(effects)[0].body));
}

TEST_CASE("requests that wait are served in their order, once there is work") {
  Setup run;
  for (const uint64_t worker : {11, 12}) {  // the second gets backup leases
    while (run.Give(worker, 1)) {
    }
  }
  run.out.Drain();
  run.generation.pending = {{{12}, 5, false}, {{11}, 6, false}};
  run.Serve();
  CHECK(run.generation.pending.size() == 2);
  CHECK(run.generation.pass.Return({11}) + run.generation.pass.Return({12}) >= 3);
  run.Serve();
  CHECK(run.generation.pending.empty());
  const SchedulerEffects effects = run.out.Drain();
  REQUIRE(MessagesIn(effects).size() == 2);
  CHECK(MessagesIn(effects)[0].to == "p12");
  CHECK(MessagesIn(effects)[1].reply_to == 6);
}

TEST_CASE("while very many wait, and there is no more work than before, nobody looks at them") {
  Setup run;
  for (uint64_t worker = 100; worker < 400; ++worker) {
    run.roster.Add(Join{}, {worker}, "p" + std::to_string(worker), 0);
    if (!run.Give(worker, 1)) run.generation.pending.push_back({{worker}, 1, false});
  }
  const size_t waiting = run.generation.pending.size();
  REQUIRE(waiting > 200);
  run.Serve(10);
  run.roster.Remove(run.generation.pending.back().worker);  // shows whether anybody looks
  run.Serve(11);
  CHECK(run.generation.pending.size() == waiting);
  run.Serve(13);
  CHECK(run.generation.pending.size() == waiting - 1);
  for (const uint64_t worker : {100, 101, 102}) run.generation.pass.Return({worker});
  run.Serve(13);  // there is more
  CHECK(run.generation.pending.size() == waiting - 4);
}

TEST_CASE("requests of workers that are gone or ask again are forgotten") {
  Setup run;
  run.generation.pending = {{{12}, 5, false}, {{11}, 6, false}};
  run.generation.Forget({11});
  CHECK(run.generation.pending.size() == 1);
  run.roster.Remove({12});
  run.Serve();
  CHECK(run.generation.pending.empty());
  CHECK(MessagesIn(run.out.Drain()).empty());
}

}  // namespace
}  // namespace dslide::generation_test
