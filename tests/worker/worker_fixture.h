// A WorkerCore with a fake scheduler and fake servers, under a clock of the test's.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
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
  int64_t now = 0;  // ms
  WorkerCore::Effects last;

  explicit WorkerFixture(uint32_t servers = 2, Config settings = {}) : config(std::move(settings)) {
    config.model.hidden = kHidden;
    if (config.train.batches_in_flight == 0) config.train.batches_in_flight = 2;
    ResolveConfig(20, 10, &config);
    std::vector<PlanServer> names;
    for (uint32_t s = 0; s < servers; ++s) {
      const std::string name(1, static_cast<char>('a' + s));
      names.push_back({name, "tcp://" + name});
    }
    plan = EqualPlan(1, config.cluster.slots, std::move(names));
  }

  WorkerCore::Effects Scheduler(Body body, uint64_t reply_to = 0, uint32_t plan_version = 1) {
    return last = core.Handle(WorkerCore::kScheduler,
                              {{kRun, {9}, 1, reply_to, plan_version}, std::move(body)}, 10,
                              1000 * now);
  }
  // The scheduler has the reports that `effects` sends.
  void Acknowledge(const WorkerCore::Effects& effects) {
    for (const auto& out : effects.send) {
      if (!std::holds_alternative<BatchDone>(out.message.body)) continue;
      (void)core.Handle(WorkerCore::kScheduler,
                        {{kRun, {9}, 1, out.message.envelope.sequence, 1}, Ack{}}, 10, 1000 * now);
    }
  }
  // A reply of `bytes`, of which the server had the request for `service_us`.
  WorkerCore::Effects Server(const WorkerCore::Outgoing& request, Body body, size_t bytes = 100,
                             uint32_t service_us = 0) {
    Envelope envelope{kRun, {8}, 1, request.message.envelope.sequence, 1};
    envelope.service_us = service_us;
    return last = core.Handle(request.to, {envelope, std::move(body)}, bytes, 1000 * now);
  }
  WorkerCore::Effects Tick(int64_t at) {
    now = at;
    return last = core.Tick({}, 1000 * now);
  }
  void JoinAndPlan(uint64_t train_samples = 100) {
    (void)core.Start(1000 * now);
    (void)Scheduler(JoinReply{"worker", FormatConfig(config), train_samples});
    (void)Scheduler(plan);
  }
  // Batches of two samples, of unit `unit` of epoch 1.
  static LeaseGrant Grant(uint32_t batches, LeaseKind kind = LeaseKind::kTrain, uint32_t unit = 2) {
    LeaseGrant grant{3, kind, 1, unit, 5, {}};
    for (uint32_t b = 0; b < batches; ++b) {
      LeaseBatch batch;
      batch.index = b;
      batch.features.ids = {1, 19, 4};
      batch.features.values = {1, 2, 1};
      batch.features.offsets = {0, 2, 3};
      batch.labels.ids = {0, 9};
      batch.labels.offsets = {0, 1, 2};
      grant.batches.push_back(batch);
    }
    return grant;
  }
  // The requests of effects to servers.
  static std::vector<WorkerCore::Outgoing> Requests(const WorkerCore::Effects& effects) {
    std::vector<WorkerCore::Outgoing> requests;
    for (const auto& out : effects.send) {
      if (out.to != WorkerCore::kScheduler) requests.push_back(out);
    }
    return requests;
  }
  template <typename T>
  static std::vector<T> ToScheduler(const WorkerCore::Effects& effects) {
    std::vector<T> bodies;
    for (const auto& out : effects.send) {
      const T* body = std::get_if<T>(&out.message.body);
      if (out.to == WorkerCore::kScheduler && body != nullptr) bodies.push_back(*body);
    }
    return bodies;
  }
  static Body EmbedAnswer(const EmbedRequest& embed) {
    Matrix partial(embed.features.rows(), kHidden);
    std::fill(partial.data.begin(), partial.data.end(), 0.5f);
    return EmbedReply{partial};
  }
  static Body Answer(const Body& request) {
    if (const auto* embed = std::get_if<EmbedRequest>(&request)) return EmbedAnswer(*embed);
    if (const auto* query = std::get_if<ActiveQuery>(&request)) {
      const uint32_t n = query->hidden.rows;
      ActiveReply reply;
      reply.max.assign(n, 1.0f);
      reply.sum_exp.assign(n, 2.0f);
      reply.target_logit.assign(n, 0.25f);
      reply.active.assign(n, 4);
      reply.active_rows = 5;
      if (query->finish) return GradientReply{Matrix(n, kHidden), reply};
      return reply;
    }
    if (const auto* push = std::get_if<GradientPush>(&request)) {
      return GradientReply{Matrix(static_cast<uint32_t>(push->log_normaliser.size()), kHidden)};
    }
    if (const auto* top = std::get_if<TopKRequest>(&request)) {
      TopKReply reply;
      for (uint32_t i = 0; i < top->hidden.rows; ++i) {
        reply.ids.push_back(i);
        reply.scores.push_back(1.0f);
        reply.offsets.push_back(i + 1);
      }
      return reply;
    }
    const auto* push = std::get_if<EmbedPush>(&request);
    return push != nullptr && push->next ? EmbedAnswer(*push->next) : Ack{};
  }
};

}  // namespace dslide
