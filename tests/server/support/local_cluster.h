// A cluster in one thread for tests: servers with their executors, driven by a BatchFlight.
//
// Every request and reply passes Encode() and Decode(), and the executors' parts are gathered as a
// real server does, so only sockets and threads are missing.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "common/run/slot_plan.h"
#include "server/executor/executor.h"
#include "server/executor/gather.h"
#include "worker/batch_flight.h"

namespace dslide {

// A resolved configuration without schedule, dropout or hashing; fp32 on the wire.
inline Config SmallConfig(uint32_t features, uint32_t labels, uint32_t hidden) {
  Config config;
  config.model.precision = Precision::kFp32;  // what references in double are held against
  config.common.seed = 7;
  config.model.hidden = hidden;
  config.model.active = ActiveSet::kAll;
  config.model.input_init = 0.3f;
  config.model.popular = 0;
  config.train.warmup_batches = 0;
  config.train.decay = Decay::kNone;
  config.train.optimizer = OptimizerKind::kSgd;
  config.train.learning_rate = 1.0f;
  config.train.dropout_hidden = 0.0f;
  config.train.probe_samples = 0;
  config.cluster.wire = Wire::kFp32;
  config.cluster.slots = 8;
  ResolveConfig(features, labels, &config);
  return config;
}

inline std::vector<SlotId> AllSlots(const Config& config) {
  std::vector<SlotId> slots;
  for (uint32_t s = 0; s < config.cluster.slots; ++s) slots.push_back({s});
  return slots;
}

// Samples with ascending random features and 0 to `most_labels` labels.
inline LeaseBatch RandomBatch(const Config& config, uint32_t samples, uint32_t most_labels,
                              Random* random) {
  const auto distinct = [&](uint64_t count, uint32_t bound) {
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; id < bound; ++id) {
      if (random->Below(bound) < count) ids.push_back(id);
    }
    return ids;
  };
  LeaseBatch batch;
  for (uint32_t i = 0; i < samples; ++i) {
    for (const uint32_t id : distinct(5, config.model.features)) {
      batch.features.ids.push_back(id);
      batch.features.values.push_back(static_cast<float>(random->Uniform() + 0.2));
    }
    batch.features.EndRow();
    for (const uint32_t id : distinct(most_labels, config.model.labels)) {
      batch.labels.ids.push_back(id);
    }
    batch.labels.EndRow();
  }
  return batch;
}

inline Body OverTheWire(Body body, WirePrecision precision) {
  Result<Message> message = Decode(Encode({{}, std::move(body)}, precision));
  REQUIRE(message.ok());
  return std::move(message->body);
}

class LocalCluster {
 public:
  // `executors[s]` executors in server s. `initialise`: with the seed's weights, otherwise all
  // zero.
  LocalCluster(const Config& config, uint64_t train_samples, const std::vector<uint32_t>& executors,
               bool initialise = true)
      : config_(config), train_samples_(train_samples) {
    plan_ = EqualPlan(1, config.cluster.slots, std::vector<PlanServer>(executors.size()));
    for (uint32_t s = 0; s < executors.size(); ++s) {
      const std::vector<SlotId> slots = SlotsOf(plan_, {s});
      servers_.emplace_back();
      for (uint32_t e = 0; e < executors[s]; ++e) {
        const size_t begin = e * slots.size() / executors[s];
        const size_t end = (e + 1) * slots.size() / executors[s];
        servers_[s].push_back(std::make_unique<Executor>(
            config, train_samples, std::span(slots).subspan(begin, end - begin), s * 4096 + e,
            Purpose::kTraining, BestKernels()));
        if (initialise) servers_[s].back()->Initialise();
      }
    }
  }

  // Trains batch number `step` of the run. The servers answer in an order that changes by the step.
  BatchDone Train(LeaseBatch batch, uint64_t step) {
    BatchFlight flight = Flight(std::move(batch), step);
    while (!flight.done()) TrainStage(&flight, step);
    return flight.report();
  }

  // Batch number `number` of the run at the beginning of its way.
  BatchFlight Flight(LeaseBatch batch, uint64_t number) const {
    const TrainConfig& train = config_.train;
    const uint64_t in_epoch = number % BatchesPerEpoch(train, train_samples_);
    LeaseGrant lease;
    lease.epoch = static_cast<uint32_t>(number / BatchesPerEpoch(train, train_samples_));
    lease.unit = static_cast<uint32_t>(in_epoch / train.unit_batches);
    batch.index = static_cast<uint32_t>(in_epoch % train.unit_batches);
    return BatchFlight(config_, plan_, lease, std::move(batch), number);
  }

  // Takes a flight of worker `sender` through one stage; server `first` is asked first.
  void TrainStage(BatchFlight* flight, uint64_t first, Incarnation sender = {1}) {
    for (uint32_t n = 0; n < servers_.size(); ++n) {
      const auto s = static_cast<uint32_t>((n + first) % servers_.size());
      const Result<bool> taken = flight->Take(s, Ask(s, flight->RequestFor(s), sender));
      REQUIRE(taken.ok());
      REQUIRE(*taken == (n + 1 == servers_.size()));
    }
  }

  // Synchronous training: the first `committed` steps count from here on, on all servers.
  void Commit(uint64_t committed) {
    for (uint32_t s = 0; s < servers_.size(); ++s) {
      REQUIRE(AskExecutors(s, CommitSteps{committed}) == Body{StepsCommitted{committed}});
    }
  }

  Body Ask(uint32_t server, Body body, Incarnation sender = {1}) {
    const Body request = OverTheWire(std::move(body), FixedPrecision(config_.cluster.wire));
    Body reply = AskExecutors(server, request, sender);
    if (const auto push = SecondRound(request, reply)) {
      Body second = AskExecutors(server, *push, sender);
      std::get<GradientReply>(second).active = std::get<ActiveReply>(std::move(reply));
      reply = std::move(second);
    }
    return OverTheWire(std::move(reply), FixedPrecision(config_.cluster.wire));
  }

  Body AskExecutors(uint32_t server, const Body& request, Incarnation sender = {1}) {
    std::vector<Body> parts;
    for (auto& executor : servers_[server]) parts.push_back(executor->Handle(sender, request));
    return GatherReplies(request, std::move(parts));
  }

  // The row of a feature (kInput; id D is the hidden bias) or a neuron, wherever it lives.
  RowView Row(LayerKind kind, uint32_t id) {
    for (auto& server : servers_) {
      for (auto& executor : server) {
        Layer& layer =
            kind == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
        const uint32_t row = layer.map().Local(id);
        if (row != SlotMap::kNone) return layer.row(row);
      }
    }
    FAIL("id without an owner");
    return {};
  }

  const Config& config() const { return config_; }
  const std::vector<std::unique_ptr<Executor>>& server(uint32_t s) const { return servers_[s]; }
  std::vector<Executor*> executors() {
    std::vector<Executor*> all;
    for (auto& server : servers_) {
      for (auto& executor : server) all.push_back(executor.get());
    }
    return all;
  }

 private:
  Config config_;
  uint64_t train_samples_;
  Plan plan_;
  std::vector<std::vector<std::unique_ptr<Executor>>> servers_;
};

}  // namespace dslide
