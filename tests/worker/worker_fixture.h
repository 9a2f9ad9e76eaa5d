// A WorkerCore with a fake scheduler and fake servers, under a clock of the test's.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/run/slot_plan.h"
#include "worker/worker_core.h"

namespace dslide {

struct WorkerFixture {
  static constexpr RunId kRun{77};
  static constexpr uint32_t kHidden = 3;

  Config config;
  WorkerCore core{{5}, "w", 2};
  Plan plan;
  int64_t now = 0;       // ms
  uint64_t receipt = 0;  // in replies of servers
  WorkerCore::Effects last;

  explicit WorkerFixture(uint32_t servers = 2, Config settings = {});

  WorkerCore::Effects Scheduler(Body body, uint64_t reply_to = 0, uint32_t plan_version = 1);
  // The scheduler has the reports that `effects` sends.
  void Acknowledge(const WorkerCore::Effects& effects);
  // A reply of `bytes`, of which the server had the request for `service_us`.
  WorkerCore::Effects Server(const WorkerCore::Outgoing& request, Body body, size_t bytes = 100,
                             uint32_t service_us = 0);
  // Answers the requests and all that follow from them. Returns the reports of the batches.
  std::vector<BatchDone> AnswerAll(std::vector<WorkerCore::Outgoing> requests);
  WorkerCore::Effects Tick(int64_t at);
  void JoinAndPlan(uint64_t train_samples = 100);
  // Batches of two samples, of unit `unit` of epoch 1.
  static LeaseGrant Grant(uint32_t batches, LeaseKind kind = LeaseKind::kTrain, uint32_t unit = 2);
  // The requests of effects to servers.
  static std::vector<WorkerCore::Outgoing> Requests(const WorkerCore::Effects& effects);
  template <typename T>
  static std::vector<T> ToScheduler(const WorkerCore::Effects& effects) {
    std::vector<T> bodies;
    for (const auto& out : effects.send) {
      const T* body = std::get_if<T>(&out.message.body);
      if (out.to == WorkerCore::kScheduler && body != nullptr) bodies.push_back(*body);
    }
    return bodies;
  }
  static Body EmbedAnswer(const EmbedRequest& embed);
  static Body Answer(const Body& request);
};

using Outbox = std::vector<WorkerCore::Outgoing>;

struct OneServer : WorkerFixture {
  OneServer() : WorkerFixture(1) { JoinAndPlan(); }
};

// The request as a T, which it is.
template <typename T>
const T& As(const WorkerCore::Outgoing& request) {
  REQUIRE(std::holds_alternative<T>(request.message.body));
  return std::get<T>(request.message.body);
}

}  // namespace dslide
