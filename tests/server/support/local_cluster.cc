#include "tests/server/support/local_cluster.h"
#include "common/config/schedule.h"

#include "common/run/step.h"
#include "server/executor/gather.h"
#include "server/executor/request_round.h"
#include "tests/support/results.h"

namespace dslide {

Body OverTheWire(Body body, WirePrecision precision) {
  Result<Message> message = Decode(Encode({{}, std::move(body)}, precision));
  REQUIRE(message.ok());
  return std::move(message->body);
}

void LimitMemory(const Config& config, Executor* executor) {
  const std::string& directory = config.cluster.disk_tier;
  if (directory == "auto" || directory == "off") return;
  for (Layer* layer : {&executor->input().layer(), &executor->output().layer()}) {
    TierFile::Options file;
    file.directory = directory;
    file.extent_bytes = 4096;
    file.ring = layer->kind() == LayerKind::kOutput;
    REQUIRE(layer->LimitMemory(file, RowTier::kLeastPlaces).ok());
  }
}

LocalCluster::LocalCluster(const Config& config, uint64_t train_samples,
                           const std::vector<uint32_t>& executors, bool initialise)
    : config_(config), train_samples_(train_samples) {
  plan_ = EqualPlan(1, config.cluster.slots, std::vector<PlanServer>(executors.size()));
  for (uint32_t s = 0; s < executors.size(); ++s) {
    const auto divided = DivideSlots(SlotsOf(plan_, {s}), config.cluster, executors[s]);
    servers_.emplace_back();
    for (uint32_t e = 0; e < executors[s]; ++e) {
      servers_[s].push_back(std::make_unique<Executor>(config, train_samples, divided[e],
                                                       Purpose::kTraining, BestKernels()));
      LimitMemory(config, servers_[s].back().get());
      if (initialise) servers_[s].back()->Initialise();
    }
  }
}

BatchDone LocalCluster::Train(LeaseBatch batch, uint64_t step) {
  BatchFlight flight = Flight(std::move(batch), step);
  while (!flight.done()) TrainStage(&flight, step);
  return flight.report();
}

BatchFlight LocalCluster::Flight(LeaseBatch batch, uint64_t number) const {
  const TrainConfig& train = config_.train;
  const uint64_t in_epoch = number % BatchesPerEpoch(train, train_samples_);
  LeaseGrant lease;
  lease.epoch = static_cast<uint32_t>(number / BatchesPerEpoch(train, train_samples_));
  lease.unit = static_cast<uint32_t>(in_epoch / train.unit_batches);
  batch.index = static_cast<uint32_t>(in_epoch % train.unit_batches);
  return BatchFlight(config_, plan_, lease, std::move(batch), number);
}

void LocalCluster::TrainStage(BatchFlight* flight, uint64_t first, Incarnation sender) {
  std::vector<uint32_t> asked;
  for (uint32_t n = 0; n < servers_.size(); ++n) {
    const auto s = static_cast<uint32_t>((n + first) % servers_.size());
    if (flight->Asks(s)) asked.push_back(s);
  }
  for (const uint32_t s : asked) {
    const bool taken = Ok(flight->Take(s, Ask(s, flight->RequestFor(s), sender)));
    REQUIRE(taken == (s == asked.back()));
  }
}

void LocalCluster::Commit(uint64_t committed) {
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    REQUIRE(AskExecutors(s, CommitSteps{committed}) == Body{StepsCommitted{committed}});
  }
}

Body LocalCluster::Ask(uint32_t server, Body body, Incarnation sender) {
  const WirePrecision precision = FixedPrecision(config_.cluster.wire);
  RequestRound round(OverTheWire(std::move(body), precision));
  while (round.Gather(Parts(server, *round.request(), sender)) ==
         RequestRound::Progress::kSecondRound) {
  }
  return OverTheWire(round.TakeReply(), precision);
}

Body LocalCluster::AskExecutors(uint32_t server, const Body& request, Incarnation sender) {
  return GatherReplies(request, Parts(server, request, sender));
}

std::vector<Body> LocalCluster::Parts(uint32_t server, const Body& request, Incarnation sender) {
  std::vector<Body> parts;
  for (auto& executor : servers_[server]) parts.push_back(executor->Handle(sender, request));
  return parts;
}

RowView LocalCluster::Row(LayerKind kind, uint32_t id) {
  for (Executor* executor : executors()) {
    Layer& layer =
        kind == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
    const uint32_t row = layer.map().Local(id);
    if (row != SlotMap::kNone) return layer.row(row);
  }
  FAIL("id without an owner");
  return {};
}

std::vector<Executor*> LocalCluster::executors() {
  std::vector<Executor*> all;
  for (auto& server : servers_) {
    for (auto& executor : server) all.push_back(executor.get());
  }
  return all;
}

}  // namespace dslide
