#include "tests/server/core/server_fixture.h"

#include "tests/support/tickets.h"

namespace dslide {

Config ServerFixture::ServerConfig() {
  Config config = SmallConfig(30, 20, 4);
  config.cluster.executors = 2;
  config.cluster.heartbeat_ms = 1000;
  config.cluster.scheduler_silence_s = 60;
  return config;
}

Plan ServerFixture::PlanOf(uint32_t plan_version, Incarnation second) const {
  Plan made = EqualPlan(plan_version, config.cluster.slots,
                        {{"server", "a", {8}}, {"server-2", "b", second}});
  made.restore = "/c/step-" + std::to_string(plan_version - 1);
  return made;
}

SortedActions ServerFixture::Scheduler(Body body, uint64_t reply_to) {
  return core.HandleScheduler({{kRun, {9}, ++sequence, reply_to, version}, std::move(body)}, now);
}

SortedActions ServerFixture::JoinAs(const std::string& name, uint64_t reply_to) {
  return Scheduler(testing::JoinReplyWithKeys(name, FormatConfig(config), 100), reply_to);
}

SortedActions ServerFixture::FinishLoad(const ServerLoad& load) {
  (void)core.HandleOutcome({load.job_id, 0, Loaded{3, 10}}, 0);
  return core.HandleOutcome({load.job_id, 1, Loaded{4, 20}}, 0);
}

void ServerFixture::Load() {
  (void)core.Start(now);
  (void)JoinAs("server-2");
  const auto load = Scheduler(plan).load;
  REQUIRE(load);
  (void)FinishLoad(*load);
}

Message ServerFixture::Request(uint64_t number, Body body, uint32_t plan_version) {
  return {{kRun, kWorker, number, 0, plan_version}, testing::Ticketed(std::move(body), kWorker)};
}

Message ServerFixture::From(Incarnation worker, Message request) {
  request.envelope.incarnation = worker;
  request.body = testing::Ticketed(std::move(request.body), worker);
  return request;
}

Message ServerFixture::Reply(const SortedActions& effects) {
  REQUIRE(effects.to_workers.size() == 1);
  CHECK(effects.to_workers[0].first == "peer");
  const auto message = Decode(*effects.to_workers[0].second);
  REQUIRE(message.ok());
  return *message;
}

ErrorCode ServerFixture::Refusal(const SortedActions& effects) {
  CHECK(effects.work.empty());
  return std::get<ErrorReply>(Reply(effects).body).code;
}

uint64_t ServerFixture::MeasureIn(const SortedActions& effects) {
  for (const ServerWork& work : effects.work) {
    if (std::holds_alternative<MeasureJob>(work.job)) return work.job_id;
  }
  FAIL("nothing is measured");
  return 0;
}

SortedActions ServerFixture::Tick(int64_t at) {
  now = at;
  return core.Tick({}, now);
}

}  // namespace dslide
