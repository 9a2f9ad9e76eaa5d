#include "scheduler/core/scheduler_core.h"

#include "common/data/checksum.h"
#include "common/run/lease_batch.h"
#include "scheduler/status/prometheus_text.h"
#include "scheduler/status/status.h"
#include "scheduler/status/summary.h"
#include "tests/scheduler/support/actions.h"
#include "tests/scheduler/support/fake_cluster.h"
#include "tests/support/numbered_samples.h"

namespace dslide::scheduler_core_test {
namespace {

using Phase = SchedulerCore::Phase;

TEST_CASE("a run goes from joining over both epochs to the end") {
  FakeCluster run;
  run.Join(1, Role::kServer);
  CHECK(run.core().phase() == Phase::kGathering);
  CHECK(run.status().waiting == "have 1 of 2 servers and 0 workers, waiting for 1 more server");
  const auto joined = std::get<JoinReply>(run.LastTo(1));
  CHECK(joined.name == "server");
  CHECK(joined.config == FormatConfig(run.core().run().config));
  CHECK(joined.train_samples == FakeCluster::kSamples);
  run.Join(11, Role::kWorker);
  CHECK_FALSE(run.Lease(11));
  run.servers_answer = false;
  run.Join(2, Role::kServer);
  CHECK(run.core().phase() == Phase::kLoading);
  CHECK_FALSE(run.Lease(11));
  run.Send(1, Ready{1, 5, 100});
  CHECK(run.core().phase() == Phase::kLoading);
  run.servers_answer = true;
  run.Send(2, Ready{1, 5, 100});
  CHECK(run.core().phase() == Phase::kTraining);
  // The worker gets the plan and then, because it had to wait, its first lease without asking
  // again.
  const auto& inbox = run.received["peer-11"];
  REQUIRE(inbox.size() >= 2);
  CHECK(std::get<Plan>(inbox[inbox.size() - 2]).servers.size() == 2);
  CHECK(std::get<LeaseGrant>(inbox.back()).unit == 0);
  CHECK(run.work(11).size() == 2);

  run.WorkAll(11);
  CHECK(run.core().phase() == Phase::kFinished);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
  CHECK(run.epochs_done == std::vector<uint32_t>{1, 2});
  REQUIRE(run.evaluations.size() == 2);
  CHECK(run.evaluations[0].epoch == 1);
  CHECK(run.evaluations[0].set == EvaluationSet::kTestPart);
  CHECK(run.evaluations[0].metrics.samples == 6);
  CHECK(run.evaluations[1].epoch == 2);
  CHECK(run.evaluations[1].set == EvaluationSet::kTest);
  CHECK(run.evaluations[1].metrics.samples == 20);
  CHECK(run.evaluations[1].metrics.precision[0] == doctest::Approx(1.0));

  // The last epoch ends with a checkpoint, before the final evaluation.
  REQUIRE(run.manifests.size() == 1);
  const Manifest& manifest = run.manifests[0];
  CHECK(manifest.name == "step-000000000026");
  CHECK(manifest.epoch == 2);
  CHECK(manifest.batches == 26);
  CHECK(manifest.samples == 100);
  CHECK(manifest.done.empty());
  REQUIRE(manifest.shards.size() == 2);
  CHECK(manifest.shards[1].directory == "shard-1-1");
  CHECK(manifest.shards[1].server == "server-2");
  CHECK(run.status().last_checkpoint == "/checkpoints/step-000000000026");

  for (const uint64_t member : {1, 2, 11}) {
    CHECK(std::get<Shutdown>(run.LastTo(member)).exit_code == 0);
    CHECK_FALSE(run.core().AllLeft());
    run.Send(member, Leave{});
  }
  CHECK(run.core().AllLeft());
}

TEST_CASE("several workers share an epoch, and one that joins late gets the plan at once") {
  FakeCluster run;
  run.Start(2);
  for (int i = 0; i < 4; ++i) {
    CHECK(run.Work(11));
    CHECK(run.Work(12));
  }
  run.Join(13, Role::kWorker);
  CHECK(std::holds_alternative<Plan>(run.LastTo(13)));
  bool working = true;
  while (working) {
    working = false;
    for (const uint64_t worker : {11, 12, 13}) {
      working |= run.core().phase() != Phase::kFinished && run.Work(worker);
    }
  }
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("a worker that falls silent loses its leases, and every batch still counts once") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Work(11));  // one of two; then it is not heard of any more
  CHECK(run.Lease(11));
  const auto lost = run.work(11);
  CHECK(lost.size() == 2);
  run.Silence(11);
  run.Wait(7000);
  CHECK(run.core().roster().Count(Role::kWorker) == 2);  // it may only be slow
  run.Wait(1000);
  CHECK(run.core().roster().Count(Role::kWorker) == 1);
  CHECK(std::get<DropBatches>(run.LastTo(1)).incarnation == Incarnation{11});
  CHECK(std::get<DropBatches>(run.LastTo(2)).incarnation == Incarnation{11});
  // What it sends now is a stranger's.
  run.Send(11, FakeCluster::Report(lost[0].first, lost[0].second));
  CHECK(std::get<ErrorReply>(run.LastTo(11)).code == ErrorCode::kWrongRun);
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  CHECK(run.promise.counted.size() == 26);
  run.CheckAllCountedOnce();
}

TEST_CASE("late reports of an expired lease count if they are the first") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Lease(11));
  const auto late = run.work(11);
  REQUIRE(late.size() == 2);
  run.now = run.core().run().config.cluster.lease_timeout_ms + 1;
  for (const uint64_t member : {1, 2, 11, 12}) run.Send(member, Heartbeat{});
  run.Tick();
  run.Send(11, FakeCluster::Report(late[0].first, late[0].second));
  CHECK(run.status().batches == 1);
  CHECK(run.Lease(12));  // the two others of that unit
  CHECK(run.work(12).size() == 2);
  CHECK(run.work(12).front().first.unit == late[0].first.unit);
  CHECK(run.Work(12));
  CHECK(run.Work(12));
  CHECK(run.status().batches == 3);
  for (const auto& [grant, batch] : late) run.Send(11, FakeCluster::Report(grant, batch));
  CHECK(run.status().batches == 3);
}

TEST_CASE("a late evaluation report does not count as a training batch of the next epoch") {
  FakeCluster run;
  run.Start(2);
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  CHECK(run.Lease(12));
  const auto late = run.work(12).front();
  run.now = run.core().run().config.cluster.lease_timeout_ms + 1;
  for (const uint64_t member : {1, 2, 11, 12}) run.Send(member, Heartbeat{});
  run.Tick();
  while (run.core().phase() == Phase::kEvaluating) CHECK(run.Work(11));
  REQUIRE(run.core().phase() == Phase::kTraining);
  run.Send(12, FakeCluster::Report(late.first, late.second));
  CHECK(run.status().batches == FakeCluster::kBatches);
  run.work(11).clear();
  run.work(12).clear();
  run.WorkAll(11);
  run.CheckAllCountedOnce();
}

TEST_CASE("evaluation reports that do not fit leave the batch to be done again") {
  FakeCluster run;
  run.Start();
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  CHECK(run.Lease(11));
  const auto [grant, batch] = run.work(11).front();
  BatchDone bad = FakeCluster::Report(grant, batch);
  bad.predictions.ids[0] = 10;  // no such label
  run.Send(11, bad);
  bad = FakeCluster::Report(grant, batch);
  bad.predictions.offsets.pop_back();
  run.Send(11, bad);
  bad = FakeCluster::Report(grant, batch);
  bad.batch.unit = 99;
  run.Send(11, bad);
  bad = FakeCluster::Report(grant, batch);
  bad.predictions = TopKReply();
  run.Send(11, bad);
  CHECK(run.core().phase() == Phase::kEvaluating);
  while (run.core().phase() == Phase::kEvaluating) CHECK(run.Work(11));
  CHECK(run.evaluations.at(0).metrics.samples == 6);
}

TEST_CASE("a run without test data or with evaluations switched off goes from epoch to epoch") {
  FakeCluster run(RunConfig(), {}, false);
  run.Start();
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  CHECK(run.evaluations.empty());
  run.CheckAllCountedOnce();

  Config config = RunConfig();
  config.train.evaluate_samples = 0;
  FakeCluster last_only(config);
  last_only.Start();
  last_only.WorkAll(11);
  REQUIRE(last_only.evaluations.size() == 1);
  CHECK(last_only.evaluations[0].set == EvaluationSet::kTest);
}

TEST_CASE("held-out samples are evaluated after each epoch, before the test samples") {
  FakeCluster run;
  run.HoldOut({20});
  run.Start();
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  for (const auto& [batch, samples] : run.promise.content)
    CHECK(std::ranges::count(samples, 20) == 0);
  CHECK(run.Lease(11));
  CHECK(run.work(11).front().second.features.ids == std::vector<uint32_t>{20});
  CHECK(std::get<JoinReply>(run.received["peer-11"].at(0)).train_samples == 49);
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  std::vector<std::pair<uint32_t, EvaluationSet>> sets;
  for (const EvaluationResult& result : run.evaluations) {
    sets.emplace_back(result.epoch, result.set);
    if (result.set == EvaluationSet::kHeldOut) CHECK(result.metrics.samples == 1);
  }
  CHECK(sets == std::vector<std::pair<uint32_t, EvaluationSet>>{{1, EvaluationSet::kHeldOut},
                                                                {1, EvaluationSet::kTestPart},
                                                                {2, EvaluationSet::kHeldOut},
                                                                {2, EvaluationSet::kTest}});
  CHECK(run.status().samples == 2 * 49);
}

TEST_CASE("a late report of held-out samples does not count in the evaluation of test samples") {
  FakeCluster run;
  SUBCASE("without keys") {}
  SUBCASE("with keys") { run.keyed = true; }
  run.HoldOut({20});
  run.Start(2);
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  CHECK(run.Lease(12));
  const auto late = run.work(12).front();
  run.now = run.core().run().config.cluster.lease_timeout_ms + 1;
  for (const uint64_t member : {1, 2, 11, 12}) run.Send(member, Heartbeat{});
  run.Tick();
  while (run.evaluations.empty()) CHECK(run.Work(11));
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  BatchDone report = FakeCluster::Report(late.first, late.second);
  for (int again = 0; again < 3; ++again) run.Send(12, report);
  while (run.core().phase() == Phase::kEvaluating) {
    if (!run.Work(11)) CHECK(run.Work(12));
  }
  REQUIRE(run.evaluations.size() == 2);
  CHECK(run.evaluations[1].set == EvaluationSet::kTestPart);
  CHECK(run.evaluations[1].metrics.samples == 6);
  CHECK(run.evaluations[1].metrics.precision[0] == doctest::Approx(1.0));
  CHECK(run.status().offences == 0);
  CHECK(run.core().roster().Find({12}) != nullptr);
}

TEST_CASE("a worker that has the data gets numbers for training, and samples for an evaluation") {
  FakeCluster run;
  run.Start();
  const Dataset data = NumberedSamples(FakeCluster::kSamples, 10);
  CHECK(std::get<JoinReply>(run.received["peer-11"].at(0)).train_checksum == Checksum(data));
  const DataOrder order = DataOrder::Epoch(data, run.core().run().config.common.seed, 0, 4);
  uint64_t samples = 0;
  for (uint64_t number = 0; number < FakeCluster::kBatches;) {
    run.Send(11, LeaseRequest{true});
    const auto grant = std::get<LeaseGrant>(run.LastTo(11));
    CHECK(grant.kind == LeaseKind::kTrain);
    for (const LeaseBatch& batch : grant.batches) {
      LeaseBatch without_ticket = batch;
      without_ticket.ticket.clear();
      CHECK(without_ticket == BatchByNumbers(order, number++, batch.index));
      BatchDone done;
      done.lease = grant.lease;
      done.batch = {grant.epoch, grant.unit, batch.index};
      done.samples = batch.samples;
      run.Send(11, done);
      samples += batch.samples;
    }
  }
  CHECK(samples == FakeCluster::kSamples);
  CHECK(run.status().samples == samples);
  REQUIRE(run.core().phase() == Phase::kEvaluating);
  run.Send(11, LeaseRequest{true});
  const auto grant = std::get<LeaseGrant>(run.LastTo(11));
  CHECK(grant.kind == LeaseKind::kEvaluate);
  CHECK(grant.batches.at(0).features.rows() == 4);
  CHECK(grant.batches.at(0).samples == 0);
}

// What the core answers to a worker's message; it is not told to the fake cluster.
SchedulerCore::Effects Ask(FakeCluster* run, uint64_t worker, uint64_t sequence, Body body) {
  return run->core().Handle("peer-" + std::to_string(worker),
                            {{{77}, {worker}, sequence, 0, 1}, std::move(body)}, run->now);
}

// The grants among effects: to whom, and in reply to which request.
std::vector<std::pair<PeerId, uint64_t>> Grants(const SchedulerCore::Effects& effects) {
  std::vector<std::pair<PeerId, uint64_t>> grants;
  for (const auto& out : MessagesIn(effects)) {
    if (std::holds_alternative<LeaseGrant>(*out.body)) grants.emplace_back(out.to, out.reply_to);
  }
  return grants;
}

using ToWorkers = std::vector<std::pair<PeerId, uint64_t>>;

TEST_CASE("workers that had to wait get a lease as soon as there is one, in the order of asking") {
  FakeCluster run;
  run.Start(4);
  run.Silence(2);
  run.Wait(8000);  // until it is taken for dead
  for (const uint64_t worker : {12, 13, 14}) {
    const auto effects = Ask(&run, worker, 500 + worker, LeaseRequest{worker == 13});
    REQUIRE(MessagesIn(effects).size() == 1);
    const auto wait = std::get<LeaseWait>(*MessagesIn(effects)[0].body);
    CHECK(wait.retry_ms == 1000);
    CHECK_FALSE(wait.finished);
    CHECK(MessagesIn(effects)[0].reply_to == 500 + worker);
  }
  // Asking again is asking last, and one request gets one lease.
  CHECK(std::holds_alternative<LeaseWait>(
      *MessagesIn(Ask(&run, 12, 600, LeaseRequest{})).at(0).body));
  CHECK(Grants(Ask(&run, 14, 601, Heartbeat{})).empty());
  CHECK(Grants(Ask(&run, 14, 602, Leave{})).empty());
  run.servers.at(2).alive = true;
  Join back;
  back.role = Role::kServer;
  back.plan_version = 1;  // as it was
  const auto effects = Ask(&run, 2, 603, back);
  CHECK(Grants(effects) == ToWorkers{{"peer-13", 513}, {"peer-12", 600}});
  for (const auto& out : MessagesIn(effects)) {
    const auto* grant = std::get_if<LeaseGrant>(&*out.body);
    if (grant == nullptr) continue;
    const bool by_numbers = out.to == "peer-13";           // it said that it has the data
    CHECK(grant->batches.size() == (by_numbers ? 2 : 1));  // of one unit of three
    CHECK(grant->batches[0].samples == (by_numbers ? 4 : 0));
    CHECK(grant->batches[0].features.rows() == (by_numbers ? 0 : 4));
  }
  CHECK(Grants(Ask(&run, 12, 604, Heartbeat{})).empty());
}

TEST_CASE("a worker that waits is given the next pass's work, or what expires, by the clock") {
  FakeCluster run;
  run.Start(2);
  for (const uint64_t worker : {11, 12}) {  // the second one gets copies
    while (run.Lease(worker)) {
    }
  }
  const size_t copies = run.work(12).size();
  run.now = run.core().run().config.cluster.lease_timeout_ms + 1;
  for (const uint64_t member : {1, 2, 11, 12}) run.Send(member, Heartbeat{});
  CHECK(run.work(12).size() == copies);  // nothing comes of signs of life
  const size_t before = run.work(11).size();
  run.Tick();
  CHECK(run.work(12).size() > copies);  // of what makes no progress
  CHECK(run.work(11).size() > before);  // it had to wait as well, and gets what was its own
  run.work(12).clear();
  run.Send(12, Leave{});
  while (run.core().phase() == Phase::kTraining) REQUIRE(run.Work(11));
  run.CheckAllCountedOnce(1);
}

TEST_CASE("what training leases take on the wire is counted, and shown a sample") {
  FakeCluster run;
  run.Start();
  CHECK(run.status().lease_bytes_per_sample == 0);
  CHECK(run.Work(11));
  const LeaseGrant train;
  LeaseGrant evaluate;
  evaluate.kind = LeaseKind::kEvaluate;
  run.core().CountSent(train, 100);
  run.core().CountSent(train, 300);
  run.core().CountSent(evaluate, 1000);
  run.core().CountSent(LeaseWait{}, 1000);
  CHECK(run.status().lease_bytes_per_sample == 400.0 / 4);
  CHECK(PrometheusText(run.status(), {}).find("dslide_lease_bytes_per_sample 100") !=
        std::string::npos);
  CHECK(SummaryJson(run.status(), CostMeter({}).Read(run.status(), {}), {})
            .find("\"lease_bytes_per_sample\": 100.0") != std::string::npos);
}

TEST_CASE("a worker's speed counts from its first lease on: what it has at once comes at once") {
  FakeCluster run;
  run.Start();
  REQUIRE(run.Lease(11));
  run.now += 10'000;
  REQUIRE(run.Work(11));
  CHECK(run.core().Describe(run.now + 100).Find({11})->batches_per_second > 0);
  CHECK(run.core().Describe(run.now + 100).Find({11})->batches_per_second < 0.2);
  run.now += 10'000;
  REQUIRE(run.Work(11));
  CHECK(run.status().Find({11})->batches_per_second < 0.2);
}

TEST_CASE("a worker that nothing is known of gets short leases") {
  Config config = RunConfig();
  config.train.unit_batches = 10;
  FakeCluster run(config);
  run.Start();
  REQUIRE(run.Lease(11));
  CHECK(run.work(11).size() == Strategy::kFirstLease);
}

}  // namespace
}  // namespace dslide::scheduler_core_test
