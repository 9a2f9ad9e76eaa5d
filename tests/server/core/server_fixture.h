// A ServerCore with a fake scheduler, fake workers and fake executors.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/run/slot_plan.h"
#include "tests/server/support/sorted_actions.h"
#include "tests/server/support/test_batches.h"

namespace dslide {

struct ServerFixture {
  static constexpr RunId kRun{77};
  static constexpr Incarnation kSelf{1}, kWorker{5};

  static Config ServerConfig();

  Config config = ServerConfig();
  TestedServerCore core{{kSelf, "", "tcp://here:1", 4, 1000}};
  Plan plan = PlanOf(1, kSelf);
  uint64_t sequence = 0;
  uint32_t version = 1;  // of the scheduler's plan
  int64_t now = 0;       // ms

  // Of two servers, the second of this incarnation.
  Plan PlanOf(uint32_t plan_version, Incarnation second) const;
  SortedActions Scheduler(Body body, uint64_t reply_to = 0);
  SortedActions JoinAs(const std::string& name, uint64_t reply_to = 0);
  // The executors have loaded their slots.
  SortedActions FinishLoad(const ServerLoad& load);
  // Joined, planned and loaded.
  void Load();
  // With the tickets that it needs.
  static Message Request(uint64_t number, Body body = TopKRequest{Matrix(1, 4), 3, {}, {}},
                         uint32_t plan_version = 1);
  // The same request of another worker.
  static Message From(Incarnation worker, Message request);
  static Message Reply(const SortedActions& effects);
  static ErrorCode Refusal(const SortedActions& effects);
  // The id of the measurement that begins.
  static uint64_t MeasureIn(const SortedActions& effects);
  static TopKReply Part(uint32_t id, float score) { return {{0, 1}, {id}, {score}}; }
  // The messages of a kind to the scheduler, whole.
  template <typename T>
  static std::vector<Message> Sent(const SortedActions& effects) {
    std::vector<Message> found;
    for (const Message& message : effects.to_scheduler) {
      if (std::holds_alternative<T>(message.body)) found.push_back(message);
    }
    return found;
  }
  SortedActions Tick(int64_t at);
};

}  // namespace dslide
