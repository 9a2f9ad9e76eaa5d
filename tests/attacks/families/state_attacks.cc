// Messages in the wrong state: too early, too late, twice, by the wrong role.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/process.h"
#include "common/config/schedule.h"
#include "common/run/step.h"
#include "tests/attacks/intruder.h"
#include "tests/attacks/lying_worker.h"

namespace dslide::state_attacks {
namespace {

constexpr double kPerSecond = 400;

EmbedRequest Beginning(const BatchId& batch, uint32_t samples) {
  EmbedRequest request;
  request.batch = batch;
  request.training = true;
  for (uint32_t i = 0; i < samples; ++i) request.features.EndRow();
  return request;
}

BatchId BatchOf(const Config& config, uint64_t number) {
  const auto unit = config.train.unit_batches;
  return {0, static_cast<uint32_t>(number / unit), static_cast<uint32_t>(number % unit)};
}

BatchDone Claim(const LeaseGrant& grant, const LeaseBatch& batch) {
  BatchDone done;
  done.lease = grant.lease;
  done.batch = {grant.epoch, grant.unit, batch.index};
  done.samples = batch.features.rows();
  done.loss_sum = 0.1 * done.samples;
  return done;
}

void BeforeJoin(Strike& strike) {
  const std::vector<Body> bodies = {LeaseRequest(), BatchDone(),
                                    Heartbeat(),    Leave(),
                                    Ack(),          ErrorReply{ErrorCode::kRefused, "eve"}};
  Repeat(strike,
         {.per_second = kPerSecond, .what = "messages", .role = std::nullopt, .listens_every = 50},
         [&](Intruder& eve, uint64_t n) {
           eve.Tell(bodies[n % bodies.size()]);
           eve.TellServer(n % 2, Beginning({0, 0, 0}, 32));
         });
}

void AfterLeave(Strike& strike) {
  uint64_t sent = 0;
  while (strike.Goes()) {
    Intruder eve(&strike);
    if (!eve.Join(Role::kWorker)) return strike.Say("cannot join: " + eve.why());
    eve.set_beats(false);
    eve.Tell(Leave());
    for (int i = 0; i < 100 && strike.Pace(kPerSecond); ++i, ++sent) {
      eve.Tell(i % 2 == 0 ? Body(LeaseRequest()) : Body(Leave()));
      eve.TellServer(0, Beginning({0, 0, 0}, 32));
    }
    eve.Receive();
  }
  strike.Say(fmt::format("{} messages", sent));
}

void PushWithoutQuery(Strike& strike) {
  Repeat(strike, {kPerSecond, "batches"}, [](Intruder& eve, uint64_t n) {
    const Config& config = *eve.config();
    const BatchId batch = BatchOf(config, n % 300);
    GradientPush push{batch, std::vector<float>(config.train.batch, 1.0f)};
    EmbedPush embed{batch, Matrix(config.train.batch, config.model.hidden)};
    ActiveQuery query;
    query.batch = batch;
    query.hidden = Matrix(config.train.batch, config.model.hidden);
    for (uint32_t i = 0; i < config.train.batch; ++i) query.labels.EndRow();
    query.label_totals.assign(config.train.batch, 1);
    for (size_t s = 0; s < 2; ++s) {
      eve.TellServer(s, push);
      eve.TellServer(s, embed);
      eve.TellServer(s, query);
    }
  });
}

void EverythingThrice(Strike& strike) {
  LyingOptions options;
  options.copies = 3;
  RunLyingWorker(strike, options);
}

// Reports batches that nobody has leased to it.
void DoneUnleased(Strike& strike) {
  Repeat(strike, {2 * kPerSecond, "reports"}, [](Intruder& eve, uint64_t n) {
    const TrainConfig& train = eve.config()->train;
    const uint64_t batches = BatchesPerEpoch(train, eve.train_samples());
    BatchDone done;
    done.batch = BatchOf(*eve.config(), n % batches);
    done.batch.epoch = 1 + static_cast<uint32_t>(n / batches);
    done.lease = n % 7;
    done.samples = static_cast<uint32_t>(SamplesOf(done.batch, train, eve.train_samples()));
    eve.Tell(done);
  });
}

// Takes leases and reports their batches at once.
void DoneUnworked(Strike& strike) {
  uint64_t claimed = 0;
  Repeat(strike, {.per_second = kPerSecond, .what = "requests", .listens_every = 0},
         [&](Intruder& eve, uint64_t) {
           eve.Tell(LeaseRequest());
           eve.Receive(20);
           for (const Message& message : eve.inbox()) {
             const auto* grant = std::get_if<LeaseGrant>(&message.body);
             if (grant == nullptr || grant->kind != LeaseKind::kTrain) continue;
             for (const LeaseBatch& batch : grant->batches) eve.Tell(Claim(*grant, batch));
             claimed += grant->batches.size();
           }
         });
  strike.Say(fmt::format("{} batches claimed", claimed));
}

// Takes all leases and trains none of them.
void HoardLeases(Strike& strike) {
  uint64_t leases = 0;
  Repeat(strike, {.per_second = kPerSecond, .what = "requests", .listens_every = 0},
         [&](Intruder& eve, uint64_t) {
           eve.Tell(LeaseRequest());
           eve.Receive();
           leases +=
               static_cast<uint64_t>(std::ranges::count_if(eve.inbox(), [](const Message& message) {
                 return std::holds_alternative<LeaseGrant>(message.body);
               }));
         });
  strike.Say(fmt::format("{} leases", leases));
}

// Every message that the sender's role may not send; each has to be refused.
void ForbiddenOf(Strike& strike, Role role, const std::vector<Body>& bodies) {
  Intruder eve(&strike);
  if (!eve.Join(role)) return strike.Say("cannot join: " + eve.why());
  size_t unanswered = 0;
  for (int round = 0; round < 3 && strike.Goes(); ++round) {
    for (const Body& body : bodies) {
      const std::string refusal = eve.Refusal(body, 300);
      unanswered += refusal == "no answer";
      if (refusal.empty()) {
        strike.Breach(fmt::format("{} by {} is taken", BodyName(body), NameOf(strike.attack().as)));
      }
    }
  }
  strike.Say(fmt::format("{} of {} without an answer", unanswered, 3 * bodies.size()));
}

void ServersMessages(Strike& strike) {
  CheckpointDone evil;
  evil.name = "step-000000000001";
  evil.shard = "../../../tmp/evil";
  AuditReport report{{1, 0, 0}, {1, 2}, {3, 4}, {5, 6}, 1, 1};
  ForbiddenOf(strike, Role::kWorker,
              {Ready{1, 1, 1, 1, 1, 1}, StepsCommitted{1000000}, MoveReady{1, 1, 1}, evil,
               CheckpointNow(), DrainServer{"server-1"}, report, StatusRequest(), SlotPull(),
               EmbedRequest(), Shutdown{"eve", 0}, CommitSteps{5}, RebuildTables{7, 3}});
}

void ObserversOrders(Strike& strike) {
  ForbiddenOf(strike, Role::kObserver,
              {DrainServer{"server-1"}, DrainServer{"server-2"}, CheckpointNow(), LeaseRequest(),
               BatchDone(), Ready(), MoveReady(), StepsCommitted{1}});
}

// A worker gives a server the scheduler's orders.
void OrdersToServer(Strike& strike) {
  CheckpointRequest save;
  save.name = "step-evil";
  save.directory = "/tmp/dslide-evil";
  MoveSlots moves;
  moves.slots = {0, 1, 2};
  moves.from = {1, 1, 1};
  const std::vector<Body> orders = {CommitSteps{1u << 30},
                                    DropBatches{strike.target().workers.at(0)},
                                    Shutdown{"eve says so", 75},
                                    save,
                                    moves,
                                    RebuildTables{99, 4},
                                    JoinReply{"eve", "", 1, 1},
                                    AccessList(),
                                    ErrorReply{ErrorCode::kFenced, "eve"}};
  Repeat(strike, {kPerSecond, "orders"}, [&](Intruder& eve, uint64_t n) {
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, orders[n % orders.size()]);
  });
}

// Begins batches of epochs [first, first + epochs) at the servers, and ends none.
void Begin(Strike& strike, uint32_t first, uint64_t epochs) {
  Repeat(strike, {3 * kPerSecond, "batches begun"}, [&](Intruder& eve, uint64_t n) {
    const TrainConfig& train = eve.config()->train;
    const uint64_t batches = BatchesPerEpoch(train, eve.train_samples());
    BatchId batch = BatchOf(*eve.config(), n % batches);
    batch.epoch = first + static_cast<uint32_t>(n / batches % epochs);
    const auto samples = static_cast<uint32_t>(SamplesOf(batch, train, eve.train_samples()));
    for (size_t s = 0; s < 2; ++s) eve.TellServer(s, Beginning(batch, samples));
  });
}
void NeverEnded(Strike& strike) { Begin(strike, 0, 1000); }
// Synchronous training: requests of steps far ahead fill the servers' waiting rooms.
void FarSteps(Strike& strike) { Begin(strike, 1000, 900); }
// Joins again and again in other roles, names and versions under one incarnation.
void JoinAsEverything(Strike& strike) {
  Repeat(strike, {100, "joins"}, [](Intruder& eve, uint64_t n) {
    Join join;
    join.role = static_cast<Role>(n % 3);
    join.protocol = n % 5 == 4 ? 7 : kProtocolVersion;
    join.name = fmt::format("eve-{}", n);
    join.address = "tcp://127.0.0.1:9";
    join.memory_bytes = uint64_t{1} << 60;
    join.plan_version = static_cast<uint32_t>(n % 4);
    eve.Tell(join);
  });
}

}  // namespace

std::vector<Attack> All() {
  return {
      {"state.before-join", As::kWorker, "leases, reports and requests without a Join", BeforeJoin,
       on::kQuick},
      {"state.after-leave", As::kWorker, "joins, leaves, and goes on as if it had not", AfterLeave},
      {"state.push-without-query", As::kWorker, "GradientPush, EmbedPush, ActiveQuery from nowhere",
       PushWithoutQuery, on::kQuick},
      {"state.everything-thrice", As::kWorker, "every request of a real worker three times",
       EverythingThrice, on::kAlone},
      {"state.done-unleased", As::kWorker, "BatchDone for all batches, without leases",
       DoneUnleased, on::kAlone},
      {"state.done-unworked", As::kWorker, "BatchDone for its leases, without training",
       DoneUnworked, on::kAlone},
      {"state.lease-hoard", As::kWorker, "400 LeaseRequests a second, nothing trained",
       HoardLeases},
      {"state.servers-messages", As::kWorker, "Ready, CheckpointDone, AuditReport... by a worker",
       ServersMessages, on::kQuick},
      {"state.observers-orders", As::kObserver, "DrainServer, CheckpointNow... by an observer",
       ObserversOrders, on::kQuick},
      {"state.orders-to-server", As::kWorker, "the scheduler's orders, sent to servers by a worker",
       OrdersToServer},
      {"state.never-ended", As::kWorker, "batches that are begun and never ended", NeverEnded},
      {"state.far-steps",
       As::kWorker,
       "requests of steps far ahead, which wait",
       FarSteps,
       {.alone = true, .synchronous = true}},
      {"state.join-as-everything", As::kWorker, "Joins in all roles and versions under one life",
       JoinAsEverything},
  };
}

}  // namespace dslide::state_attacks
