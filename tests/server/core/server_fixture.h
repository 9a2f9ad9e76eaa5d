// A ServerCore with a fake scheduler, fake workers and fake executors.
#pragma once

#include <string>

#include "server/core/server_core.h"
#include "tests/server/support/local_cluster.h"

namespace dslide {

struct ServerFixture {
  static constexpr RunId kRun{77};
  static constexpr Incarnation kSelf{1}, kWorker{5};

  static Config ServerConfig() {
    Config config = SmallConfig(30, 20, 4);
    config.cluster.executors = 2;
    config.cluster.heartbeat_ms = 1000;
    config.cluster.scheduler_silence_s = 60;
    return config;
  }

  Config config = ServerConfig();
  ServerCore core{{kSelf, "", "tcp://here:1", 4, 1000}};
  Plan plan = PlanOf(1, kSelf);
  uint64_t sequence = 0;
  uint32_t version = 1;  // of the scheduler's plan
  int64_t now = 0;       // ms

  // Of two servers, the second of this incarnation.
  Plan PlanOf(uint32_t plan_version, Incarnation second) const {
    Plan made = EqualPlan(plan_version, config.cluster.slots,
                          {{"server", "a", {8}}, {"server-2", "b", second}});
    made.restore = "/c/step-" + std::to_string(plan_version - 1);
    return made;
  }
  ServerCore::Effects Scheduler(Body body, uint64_t reply_to = 0) {
    return core.HandleScheduler({{kRun, {9}, ++sequence, reply_to, version}, std::move(body)}, now);
  }
  ServerCore::Effects JoinAs(const std::string& name, uint64_t reply_to = 0) {
    return Scheduler(JoinReply{name, FormatConfig(config), 100}, reply_to);
  }
  // The executors have loaded their slots.
  ServerCore::Effects Loaded(const ServerCore::Load& load) {
    (void)core.HandleOutcome({load.ticket, 0, Ready{0, 3, 10}}, 0);
    return core.HandleOutcome({load.ticket, 1, Ready{0, 4, 20}}, 0);
  }
  // Joined, planned and loaded.
  void Load() {
    (void)core.Start(now);
    (void)JoinAs("server-2");
    const auto load = Scheduler(plan).load;
    REQUIRE(load);
    (void)Loaded(*load);
  }
  static Message Request(uint64_t number, Body body = TopKRequest{Matrix(1, 4), 3, {}, {}},
                         uint32_t plan_version = 1) {
    return {{kRun, kWorker, number, 0, plan_version}, std::move(body)};
  }
  static Message Reply(const ServerCore::Effects& effects) {
    REQUIRE(effects.to_workers.size() == 1);
    CHECK(effects.to_workers[0].first == "peer");
    const auto message = Decode(effects.to_workers[0].second);
    REQUIRE(message.ok());
    return *message;
  }
  static ErrorCode Refusal(const ServerCore::Effects& effects) {
    CHECK(effects.work.empty());
    return std::get<ErrorReply>(Reply(effects).body).code;
  }
  static TopKReply Part(uint32_t id, float score) { return {{0, 1}, {id}, {score}}; }
  // The messages of a kind to the scheduler, whole.
  template <typename T>
  static std::vector<Message> Sent(const ServerCore::Effects& effects) {
    std::vector<Message> found;
    for (const Message& message : effects.to_scheduler) {
      if (std::holds_alternative<T>(message.body)) found.push_back(message);
    }
    return found;
  }
  ServerCore::Effects Tick(int64_t at) {
    now = at;
    return core.Tick({}, now);
  }
};

}  // namespace dslide
