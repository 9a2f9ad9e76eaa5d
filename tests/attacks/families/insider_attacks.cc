// Attacks by one member with a right key: a server against workers, a worker that is there before
// all others, servers one after another.
#include <fmt/core.h>

#include <set>
#include <thread>

#include "common/base/process.h"
#include "common/run/lease_proofs.h"
#include "tests/attacks/families/poison_attacks.h"
#include "tests/attacks/intruder.h"
#include "tests/attacks/lying_server.h"
#include "tests/attacks/lying_worker.h"
#include "worker/worker_core.h"

namespace dslide::insider_attacks {
namespace {

// Partial sums of zeros, for workers that try a new server; nothing else is answered.
std::optional<Body> ZerosForEmbed(const Body& request, const Config& config) {
  const auto* embed = std::get_if<EmbedRequest>(&request);
  if (embed == nullptr) return std::nullopt;
  return EmbedReply{Matrix(embed->features.rows(), config.model.hidden)};
}

// Complains of every worker that asks it something.
void Complaints(Strike& strike) {
  std::set<uint64_t> workers;
  LyingServerOptions options;
  options.wants_slots = false;
  options.answer = ZerosForEmbed;
  options.hear = [&](const Envelope& envelope) { workers.insert(envelope.incarnation.value); };
  options.tell = [&](uint64_t round) -> std::optional<Body> {
    if (workers.empty()) return std::nullopt;
    auto worker = workers.begin();
    std::advance(worker, round % workers.size());
    const BatchId batch{static_cast<uint32_t>(round), 0, 0};
    return Offence{*worker, batch, "sent gradients that are not numbers", {}};
  };
  RunLyingServer(strike, options);
  strike.Say(fmt::format("{} incarnations of workers heard", workers.size()));
}

// Two at once, by one key.
void ComplaintsOfTwo(Strike& strike) {
  std::thread other([&] { Complaints(strike); });
  Complaints(strike);
  other.join();
}

// New servers one after another: each proves that it is reached, says Ready, and answers nothing.
void NewServers(Strike& strike) {
  LyingServerOptions options;
  options.name = fmt::format("eve-{}", strike.Draw().value % 1000);
  options.memory_bytes = uint64_t{1} << 40;
  options.changes_name = true;
  RunLyingServer(strike, options);
}
void NewServersInPairs(Strike& strike) {
  std::thread other([&] { NewServers(strike); });
  NewServers(strike);
  other.join();
}
// As NewServers(), but each answers workers with refusals.
void NewServersThatRefuse(Strike& strike) {
  LyingServerOptions options;
  options.memory_bytes = uint64_t{1} << 40;
  options.changes_name = true;
  options.answer = [](const Body&, const Config&) -> std::optional<Body> {
    return ErrorReply{ErrorCode::kRefused, "not now"};
  };
  RunLyingServer(strike, options);
}

// Joins as a server to be told a receipt key, and reports batches as a worker without having
// trained them, with receipts by that key.
void ForgedReceipts(Strike& strike) {
  HashKey key = {};
  bool has_key = false;
  LyingServerOptions server;
  server.leaves_with = [&](const JoinReply& told) {
    has_key = told.receipt_key.size() == key.size();
    if (has_key) std::ranges::copy(told.receipt_key, key.begin());
  };
  RunLyingServer(strike, server);
  strike.Say(has_key ? "was told a key for receipts" : "was told no key");
  Incarnation self;
  LyingOptions options;
  options.twist = [&](uint32_t to, Message* message) {
    self = message->envelope.incarnation;
    if (to != WorkerCore::kScheduler) return true;
    auto* done = std::get_if<BatchDone>(&message->body);
    if (done == nullptr) return true;
    done->receipts.clear();
    for (const PlanServer& honest : strike.target().servers) {
      done->receipts.push_back(ReceiptOf(key, honest.incarnation, self,
                                         message->envelope.plan_version, LeaseKind::kTrain,
                                         done->batch, 0));
    }
    done->loss_parts.assign(done->receipts.size(), 0);
    return true;
  };
  RunLyingWorker(strike, options);
}

// Numbers near 0, so that those of others look too large.
void TinyNumbers(Strike& strike) {
  LyingOptions options;
  options.delay_ms = 1;
  options.twist = [](uint32_t, Message* message) {
    const auto shrink = [](EmbedRequest* request) {
      for (float& x : request->features.values) x = 1e-9f;
    };
    if (auto* embed = std::get_if<EmbedRequest>(&message->body)) shrink(embed);
    if (auto* query = std::get_if<ActiveQuery>(&message->body)) {
      for (float& x : query->hidden.data) x = 0;
    }
    if (auto* push = std::get_if<EmbedPush>(&message->body)) {
      for (float& x : push->gradient.data) x = 0;
      if (push->next) shrink(&*push->next);
    }
    return true;
  };
  RunLyingWorker(strike, options);
}

// Reports losses that the servers have not seen.
void ReportLoss(Strike& strike, double loss) {
  LyingOptions options;
  options.twist =
      Change<BatchDone>([loss](BatchDone* done) { done->loss_sum = loss * done->samples; });
  RunLyingWorker(strike, options);
}
void LowLoss(Strike& strike) { ReportLoss(strike, -0.99); }
void HighLoss(Strike& strike) { ReportLoss(strike, 1.0); }

// Requests for a plan far ahead, without a ticket.
void EarlyWithoutTicket(Strike& strike) {
  ActiveQuery query;
  query.hidden = Matrix(kMaxBatchSamples, 32);
  for (uint32_t i = 0; i < kMaxBatchSamples; ++i) query.labels.EndRow();
  query.label_totals.assign(kMaxBatchSamples, 0);
  Repeat(strike, {.per_second = 100, .what = "requests", .most = 600, .listens_every = 1},
         [&](Intruder& eve, uint64_t n) {
           eve.envelope().plan_version = eve.plan()->version + (n % 2 == 0 ? 900 : 5);
           eve.TellServer(n % 2, n % 3 == 0 ? Body(query) : Body(EmbedPush()));
         });
}

// Rows, pulled in the name of a server.
void PullAsServer(Strike& strike) {
  uint64_t rows = 0;
  Repeat(strike, {.per_second = 50, .what = "pulls", .listens_every = 0},
         [&](Intruder& eve, uint64_t) {
           SlotPull pull;
           pull.slot = static_cast<uint32_t>(strike.random().Below(256));
           pull.max_bytes = 1 << 20;
           eve.envelope().incarnation = strike.target().servers.at(1).incarnation;
           const std::optional<Body> answer = eve.AskServer(0, pull, 200);
           rows += answer && std::holds_alternative<SlotRows>(*answer);
         });
  if (rows > 0) strike.Breach(fmt::format("{} parts of slots were handed over", rows));
}

// As many observers as there may be, from one process.
void Observers(Strike& strike) {
  std::vector<std::unique_ptr<Intruder>> observers;
  while (observers.size() < 400 && strike.Pace(200)) {
    observers.push_back(std::make_unique<Intruder>(&strike));
    Join join;
    join.role = Role::kObserver;
    join.name = fmt::format("eve-{}", observers.size());
    observers.back()->Tell(join);
    observers.back()->set_beats(true);
  }
  while (strike.Goes()) {
    for (auto& observer : observers) observer->Receive();
    strike.Rest(20);
  }
  strike.Say(fmt::format("{} observers", observers.size()));
}

}  // namespace

std::vector<Attack> All() {
  std::vector<Attack> all = {
      {"insider.complaints", As::kServer, "a new server complains of every worker", Complaints},
      {"insider.complaints-of-two", As::kServer, "two new servers of one key complain",
       ComplaintsOfTwo},
      {"insider.new-servers", As::kServer, "silent servers, one after another", NewServers},
      {"insider.new-pairs", As::kServer, "two at once, one after another", NewServersInPairs},
      {"insider.new-refusing", As::kServer, "servers that refuse, one after another",
       NewServersThatRefuse},
      {"insider.tiny-first",
       As::kWorker,
       "alone at first, with numbers near 0, and continues",
       TinyNumbers,
       {.workers = 1, .first = true}},
      {"insider.low-loss",
       As::kWorker,
       "1 of 2: reports losses of -0.99, then leaves",
       LowLoss,
       {.workers = 1}},
      {"insider.high-loss", As::kWorker, "1 of 3: reports losses of 1", HighLoss},
      {"insider.receipts", As::kAnyone, "receipts by the key of a server that has left",
       ForgedReceipts, on::kPlain},
      {"insider.early", As::kWorker, "large requests for plans to come, without a ticket",
       EarlyWithoutTicket},
      {"insider.pulls", As::kAnyone, "rows, pulled in a server's name", PullAsServer, on::kPlain},
      {"insider.observers", As::kObserver, "400 observers", Observers},
  };
  for (Attack& attack : all) {
    attack.on.alone = true;
    attack.on.times = 4;
  }
  return all;
}

}  // namespace dslide::insider_attacks
