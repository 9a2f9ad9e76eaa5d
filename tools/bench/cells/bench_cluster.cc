#include "tools/bench/cells/bench_cluster.h"

#include <optional>
#include <stdexcept>
#include <utility>

#include "common/base/check.h"
#include "common/run/batch_number.h"
#include "common/run/slot_plan.h"
#include "server/executor/request_round.h"

namespace dslide::cells {
namespace {

constexpr Incarnation kWorker{1};

Plan PlanOf(const Config& config, uint32_t servers) {
  return EqualPlan(1, config.cluster.slots, std::vector<PlanServer>(servers));
}

}  // namespace

BenchCluster::BenchCluster(const Config& config, uint64_t batches, uint32_t servers, uint32_t lag)
    : config_(config), batches_(batches), plan_(PlanOf(config, servers)), lag_(lag) {
  for (uint32_t server = 0; server < servers; ++server) {
    const std::vector<SlotId> slots = SlotsOf(plan_, {server});
    executors_.push_back(std::make_unique<Executor>(config_, batches * config_.train.batch, slots,
                                                    server, Purpose::kTraining, BestKernels()));
    executors_.back()->Initialise();
  }
}

void BenchCluster::Train(uint64_t number, LeaseBatch batch, MessageHook* hook) {
  LeaseGrant lease;
  lease.epoch = static_cast<uint32_t>(number / batches_);
  const UnitPlace place = PlaceInUnit(number % batches_, config_.train.unit_batches);
  lease.unit = place.unit;
  batch.index = place.index;
  if (hook != nullptr) hook->Begin(number, batch.labels);
  DSLIDE_CHECK(hook == nullptr || lag_ == 0);
  for (Open& open : open_) open.age++;
  open_.push_back({std::make_unique<BatchFlight>(config_, plan_, lease, std::move(batch), number)});
  for (Open& open : open_) {
    while (!open.flight->done() && 2 * open.age >= open.stages * lag_) {
      Advance(open.flight.get(), hook);
      open.stages++;
    }
  }
  DropEnded();
}

void BenchCluster::Finish() {
  for (Open& open : open_) {
    while (!open.flight->done()) Advance(open.flight.get(), nullptr);
  }
  DropEnded();
}

void BenchCluster::DropEnded() {
  while (!open_.empty() && open_.front().flight->done()) {
    loss_sum_ += open_.front().flight->report().loss_sum;
    open_.pop_front();
  }
}

TopKReply BenchCluster::Rank(LeaseBatch batch, uint32_t k) {
  LeaseGrant lease;
  lease.kind = LeaseKind::kEvaluate;
  lease.top_k = k;
  BatchFlight flight(config_, plan_, lease, std::move(batch), 0);
  while (!flight.done()) Advance(&flight, nullptr);
  return flight.report().predictions;
}

void BenchCluster::Advance(BatchFlight* flight, MessageHook* hook) {
  std::vector<std::optional<Body>> replies(executors_.size());
  for (uint32_t server = 0; server < executors_.size(); ++server) {
    if (!flight->Asks(server)) continue;
    Body request = flight->RequestFor(server);
    if (hook != nullptr) hook->Sent(server, &request);
    replies[server] = Serve(server, std::move(request));
    if (hook != nullptr) hook->Received(server, &*replies[server]);
  }
  for (uint32_t server = 0; server < executors_.size(); ++server) {
    if (!replies[server]) continue;
    const Result<bool> taken = flight->Take(server, *std::move(replies[server]));
    if (!taken.ok()) throw std::runtime_error(taken.error().message);
  }
}

Body BenchCluster::Serve(uint32_t server, Body request) {
  RequestRound round(std::move(request));
  for (;;) {
    Body part = executors_[server]->Handle(kWorker, *round.request());
    if (const auto* error = std::get_if<ErrorReply>(&part)) throw std::runtime_error(error->text);
    std::vector<Body> parts;
    parts.push_back(std::move(part));
    switch (round.Gather(std::move(parts))) {
      case RequestRound::Progress::kReplied:
        return round.TakeReply();
      case RequestRound::Progress::kSecondRound:
        break;
      case RequestRound::Progress::kOutOfRange:
        throw std::runtime_error("training diverged");
    }
  }
}

LeaseBatch BatchOf(const Dataset& data, std::span<const uint32_t> numbers) {
  LeaseBatch batch;
  for (const uint32_t number : numbers) {
    const SampleView sample = data[number];
    SparseRows& features = batch.features;
    features.ids.insert(features.ids.end(), sample.features.begin(), sample.features.end());
    features.values.insert(features.values.end(), sample.values.begin(), sample.values.end());
    features.EndRow();
    batch.labels.ids.insert(batch.labels.ids.end(), sample.labels.begin(), sample.labels.end());
    batch.labels.EndRow();
  }
  return batch;
}

}  // namespace dslide::cells
