// A worker whose messages are lost, that was taken for dead, or meets a new plan or scheduler.
#include "tests/worker/worker_fixture.h"

namespace dslide::worker_recovery_test {
namespace {

using Fixture = WorkerFixture;

// Trains a whole batch; its report is in f->last.
void TrainBatch(Fixture* f) {
  const auto requests = Fixture::Requests(f->Scheduler(Fixture::Grant(1)));
  REQUIRE(f->AnswerAll(requests).size() == 1);
}

// The messages of a kind to the scheduler, whole.
template <typename T>
std::vector<Message> MessagesToScheduler(const WorkerCore::Effects& effects) {
  std::vector<Message> found;
  for (const auto& out : effects.send) {
    if (std::holds_alternative<T>(out.message.body)) found.push_back(out.message);
  }
  return found;
}

TEST_CASE_FIXTURE(Fixture, "a report is sent again until the scheduler has it") {
  JoinAndPlan();
  TrainBatch(this);
  const Message report = MessagesToScheduler<BatchDone>(last).at(0);
  const int64_t timeout = config.cluster.request_timeout_ms;
  CHECK(ToScheduler<BatchDone>(Tick(timeout - 1)).empty());
  for (int64_t again = 1; again <= 3; ++again) {
    const auto repeated = MessagesToScheduler<BatchDone>(Tick(again * timeout));
    REQUIRE(repeated.size() == 1);
    CHECK(repeated[0] == report);  // with the same sequence
    CHECK(ToScheduler<BatchDone>(Tick(again * timeout + 1)).empty());
  }
  (void)Scheduler(Ack{}, report.envelope.sequence + 1);  // of something else
  CHECK(ToScheduler<BatchDone>(Tick(4 * timeout)).size() == 1);
  (void)Scheduler(Ack{}, report.envelope.sequence);
  (void)Scheduler(Ack{}, report.envelope.sequence);
  CHECK(ToScheduler<BatchDone>(Tick(5 * timeout)).empty());
}

TEST_CASE_FIXTURE(Fixture, "a stopped worker leaves when its reports have arrived") {
  JoinAndPlan();
  TrainBatch(this);
  const auto report = last;
  core.RequestStop();
  CHECK_FALSE(Tick(1).exit);
  Acknowledge(report);
  CHECK(Tick(2).exit);
}

TEST_CASE_FIXTURE(Fixture, "a worker that a server calls dead asks the scheduler") {
  JoinAndPlan();
  const auto requests = Requests(Scheduler(Grant(1, LeaseKind::kTrain)));
  (void)Tick(5000);  // with a heartbeat
  now = 5050;
  (void)Server(requests[0], ErrorReply{ErrorCode::kFenced, "the scheduler took it for dead"});
  CHECK(core.joined());
  CHECK(ToScheduler<Heartbeat>(Tick(5090)).empty());  // a server must not make it flood
  CHECK(ToScheduler<Heartbeat>(Tick(5100)).size() == 1);
  CHECK(ToScheduler<Heartbeat>(Tick(5200)).empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "a worker that is not known any more begins a new life without its work") {
  JoinAndPlan();
  TrainBatch(this);
  const Message report = MessagesToScheduler<BatchDone>(last).at(0);
  const auto requests = Requests(Scheduler(Grant(1, LeaseKind::kTrain, 3)));
  const Incarnation first = report.envelope.incarnation;
  now = 5000;
  SUBCASE("a new life of the scheduler") {
    (void)Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}, report.envelope.sequence);
  }
  SUBCASE("the scheduler took it for dead") {
    (void)Scheduler(ErrorReply{ErrorCode::kFenced, "who"});
  }
  CHECK_FALSE(last.exit);
  CHECK_FALSE(core.joined());
  CHECK(Tick(5100).send.empty());  // not at once: who refuses is not to be flooded
  const auto joins = MessagesToScheduler<Join>(Tick(5300));
  REQUIRE(joins.size() == 1);
  const Incarnation second = joins[0].envelope.incarnation;
  CHECK(second != first);
  CHECK(joins[0].envelope.plan_version == 0);
  CHECK(std::get<Join>(joins[0].body).name == "w");
  // Answers to the old life are nobody's.
  (void)Scheduler(ErrorReply{ErrorCode::kWrongRun, "who"}, report.envelope.sequence);
  (void)Server(requests[1], Answer(requests[1].message.body));
  CHECK(last.send.empty());
  (void)Scheduler(JoinReply{"worker-2", FormatConfig(config), 100}, joins[0].envelope.sequence);
  CHECK(core.joined());
  plan.version = 4;
  const auto planned = Scheduler(plan, 0, 4);
  REQUIRE(planned.connect);
  CHECK(ToScheduler<LeaseRequest>(planned).size() == 1);
  const auto anew = Requests(Scheduler(Grant(1), 0, 4));
  REQUIRE(anew.size() == 2);
  CHECK(anew[0].message.envelope.incarnation == second);
  CHECK(anew[0].message.envelope.plan_version == 4);
  CHECK(ToScheduler<BatchDone>(Tick(5300 + config.cluster.request_timeout_ms)).empty());
}

TEST_CASE_FIXTURE(Fixture, "a newer plan takes a worker's work, reports too") {
  JoinAndPlan();
  TrainBatch(this);
  const auto requests = Requests(Scheduler(Grant(3)));
  plan.version = 2;
  plan.servers.pop_back();
  for (uint16_t& owner : plan.slot_owner) owner = 0;
  (void)Scheduler(plan, 0, 2);
  REQUIRE(last.connect);
  CHECK(last.connect->servers.size() == 1);
  REQUIRE(ToScheduler<LeaseRequest>(last).size() == 1);
  CHECK(last.send[0].message.envelope.plan_version == 2);
  CHECK(Server(requests[0], Answer(requests[0].message.body)).send.empty());
  CHECK(Server(requests[1], ErrorReply{ErrorCode::kStalePlan, "2"}).notices.empty());
  const auto later = Tick(config.cluster.request_timeout_ms);
  CHECK(Requests(later).empty());
  CHECK(ToScheduler<BatchDone>(later).empty());
  CHECK(Requests(Scheduler(Grant(1), 0, 2)).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "plans that are not newer change nothing") {
  JoinAndPlan();
  (void)Scheduler(Grant(1));
  CHECK_FALSE(Scheduler(plan).connect);
  plan.version = 0;
  CHECK_FALSE(Scheduler(plan).connect);
  last = core.Handle(0, {{kRun, {8}, 1, 0, 0}, plan}, 100, 0);
  CHECK_FALSE(last.connect);
  CHECK(Requests(Tick(config.cluster.request_timeout_ms)).size() == 2);  // the batch is in flight
}

TEST_CASE_FIXTURE(Fixture, "a worker leaves when the scheduler has been silent for too long") {
  config.cluster.scheduler_silence_s = 30;
  JoinAndPlan();
  for (int64_t at = 1000; at <= 30'000; at += 1000) CHECK_FALSE(Tick(at).exit);
  SUBCASE("silence") {
    const auto effects = Tick(30'001);
    REQUIRE(effects.exit);
    CHECK(effects.exit->error().kind == ErrorKind::kTryLater);
    CHECK(effects.exit->error().message == "nothing heard from the scheduler for 30 s");
  }
  SUBCASE("any message ends it") {
    (void)Scheduler(HeartbeatReply{});
    CHECK_FALSE(Tick(30'001).exit);
    CHECK(Tick(60'001).exit);
  }
}

}  // namespace
}  // namespace dslide::worker_recovery_test
