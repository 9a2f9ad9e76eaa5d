#include "tests/worker/worker_fixture.h"

#include <algorithm>
#include <utility>

namespace dslide {

WorkerFixture::WorkerFixture(uint32_t servers, Config settings) : config(std::move(settings)) {
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

WorkerCore::Effects WorkerFixture::Scheduler(Body body, uint64_t reply_to, uint32_t plan_version) {
  last = core.Handle(WorkerCore::kScheduler,
                     {{kRun, {9}, 1, reply_to, plan_version}, std::move(body)}, 10, 1000 * now);
  return last;
}

void WorkerFixture::Acknowledge(const WorkerCore::Effects& effects) {
  for (const auto& out : effects.send) {
    if (!std::holds_alternative<BatchDone>(out.message.body)) continue;
    (void)core.Handle(WorkerCore::kScheduler,
                      {{kRun, {9}, 1, out.message.envelope.sequence, 1}, Ack{}}, 10, 1000 * now);
  }
}

WorkerCore::Effects WorkerFixture::Server(const WorkerCore::Outgoing& request, Body body,
                                          size_t bytes, uint32_t service_us) {
  Envelope envelope{kRun, {8}, 1, request.message.envelope.sequence, 1};
  envelope.service_us = service_us;
  envelope.receipt = receipt;
  return last = core.Handle(request.to, {envelope, std::move(body)}, bytes, 1000 * now);
}

std::vector<BatchDone> WorkerFixture::AnswerAll(std::vector<WorkerCore::Outgoing> requests) {
  std::vector<BatchDone> reports;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto more = Server(requests[i], Answer(requests[i].message.body));
    for (const BatchDone& report : ToScheduler<BatchDone>(more)) reports.push_back(report);
    for (const auto& request : Requests(more)) requests.push_back(request);
  }
  return reports;
}

WorkerCore::Effects WorkerFixture::Tick(int64_t at) {
  now = at;
  return last = core.Tick({}, 1000 * now);
}

void WorkerFixture::JoinAndPlan(uint64_t train_samples) {
  (void)core.Start(1000 * now);
  (void)Scheduler(JoinReply{"worker", FormatConfig(config), train_samples});
  (void)Scheduler(plan);
}

LeaseGrant WorkerFixture::Grant(uint32_t batches, LeaseKind kind, uint32_t unit) {
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

std::vector<WorkerCore::Outgoing> WorkerFixture::Requests(const WorkerCore::Effects& effects) {
  std::vector<WorkerCore::Outgoing> requests;
  for (const auto& out : effects.send) {
    if (out.to != WorkerCore::kScheduler) requests.push_back(out);
  }
  return requests;
}

Body WorkerFixture::EmbedAnswer(const EmbedRequest& embed) {
  Matrix partial(embed.features.rows(), kHidden);
  std::fill(partial.data.begin(), partial.data.end(), 0.5f);
  return EmbedReply{partial};
}

Body WorkerFixture::Answer(const Body& request) {
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

}  // namespace dslide
