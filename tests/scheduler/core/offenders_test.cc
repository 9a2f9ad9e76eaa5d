// Workers that report what they have not done, and servers that report workers.
#include <cmath>

#include "common/run/lease_proofs.h"
#include "scheduler/base/events.h"
#include "scheduler/members/offences.h"
#include "tests/scheduler/support/actions.h"
#include "tests/scheduler/support/fake_cluster.h"

namespace dslide::offenders_test {
namespace {

using Phase = SchedulerCore::Phase;

// A report whose receipts are wrong.
BatchDone Forged(const std::pair<LeaseGrant, LeaseBatch>& leased) {
  BatchDone done = FakeCluster::Report(leased.first, leased.second);
  done.receipts = {1};
  return done;
}

bool IsMember(FakeCluster* run, uint64_t worker) {
  return run->core().roster().Find({worker}) != nullptr;
}

TEST_CASE("offenders: a batch without receipts does not count, and is leased again at once") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Lease(11));
  const auto leased = run.work(11);
  REQUIRE(leased.size() == 2);
  run.Send(11, Forged(leased[0]));
  CHECK(std::holds_alternative<Ack>(run.LastTo(11)));
  CHECK(run.status().batches == 0);
  CHECK(run.status().work.batches == 0);
  CHECK(run.status().offences == 1);
  CHECK(run.Noticed(
      event::kViolation,
      {{"worker", "worker"}, {"why", "has not the receipts of all servers for batch 0.0.0"}}));
  // The first free batch is this one, then the third of the unit.
  CHECK(run.Lease(12));
  CHECK(run.work(12).front().second.index == leased[0].second.index);
  CHECK(run.work(12).front().first.unit == leased[0].first.unit);
  // The other one is still the first worker's.
  run.Send(11, FakeCluster::Report(leased[1].first, leased[1].second));
  CHECK(run.status().batches == 1);
  run.work(11).clear();
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  run.CheckAllCountedOnce();
}

TEST_CASE("offenders: a report that is repeated shows no speed, and holds no lease") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Work(11));
  const auto leased = run.work(11).front();
  run.work(11).clear();
  run.now += 10'000;
  run.Send(11, FakeCluster::Report(leased.first, leased.second));
  const double speed = run.status().members.at(2).batches_per_second;
  CHECK(speed > 0);
  for (int i = 0; i < 100; ++i) run.Send(11, FakeCluster::Report(leased.first, leased.second));
  CHECK(run.status().members.at(2).batches_per_second == speed);
}

TEST_CASE("offenders: a peer writes some lines, and none of its own words' characters") {
  FakeCluster run;
  run.Start(1);
  CHECK(run.Lease(11));
  const auto leased = run.work(11).front();
  const size_t before = run.notices.size();
  for (int i = 0; i < 1000; ++i) run.Send(11, Forged(leased));
  CHECK(run.status().offences >= 1);
  CHECK(run.notices.size() <= before + 52);
  Offence offence;
  offence.worker = 11;
  offence.reason = "line\n\x1b[2Jgone";
  run.now += 60'000;
  run.Send(1, offence);
  for (const Event& event : run.notices) {
    CHECK(event.text.find_first_of("\n\x1b") == std::string::npos);
  }
}

TEST_CASE("offenders: a batch that was never leased to a worker does not count") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Lease(11));
  const auto leased = run.work(11).front();
  BatchDone claimed = FakeCluster::Report(leased.first, leased.second);
  const Config& config = run.core().run().config;
  const std::vector<bool> gives =
      GivesReceipt(run.core().plan(), config.cluster, LeaseKind::kTrain);
  claimed.loss_parts.assign(static_cast<size_t>(std::ranges::count(gives, true)), 0.0);
  claimed.loss_parts.at(0) = claimed.loss_sum;
  claimed.receipts =
      ReceiptsOf(run.core().run().lease_keys.receipts, run.core().plan(), config.cluster, {11},
                 LeaseKind::kTrain, claimed.batch, claimed.loss_parts);
  run.Send(12, claimed);  // with the first worker's receipts and lease
  CHECK(run.status().batches == 0);
  CHECK(run.status().offences == 1);
  run.Send(11, claimed);
  CHECK(run.status().batches == 1);
  CHECK(run.status().offences == 1);
}

TEST_CASE("offenders: the third offence puts the worker out, and its key into quarantine") {
  FakeCluster run;
  run.Start(1);
  // A key of its own.
  const uint64_t liar = (uint64_t{9} << 32) + 1;
  run.Join(liar, Role::kWorker);
  CHECK(run.Work(11));  // which shows that servers give receipts
  CHECK(run.Lease(liar));
  const auto leased = run.work(liar).front();
  run.Send(liar, Forged(leased));
  run.Send(liar, Forged(leased));
  CHECK(IsMember(&run, liar));
  const auto effects = run.core().Handle("peer-" + std::to_string(liar),
                                         {{{77}, {liar}, 900, 0, 1}, Forged(leased)}, run.now);
  CHECK_FALSE(IsMember(&run, liar));
  REQUIRE(All<action::QuarantineKey>(effects).size() == 1);
  CHECK(All<action::QuarantineKey>(effects)[0].member == Incarnation{liar});
  CHECK(run.status().offences == 3);
  CHECK(run.status().journal.decisions().back().event.Is(event::kWorkerGone));
  run.work(liar).clear();
  run.WorkAll(11);
  CHECK(run.core().outcome().ok());
  CHECK(run.status().work.Loss() == doctest::Approx(1));
  run.CheckAllCountedOnce();
}

TEST_CASE("offenders: without keys the name and the connection of who was put out are remembered") {
  FakeCluster run;
  run.Start(1);
  CHECK(run.Work(11));  // which shows that servers give receipts
  const auto put_out = [&](uint64_t liar, const std::string& name) {
    run.Join(liar, Role::kWorker, name);
    REQUIRE(IsMember(&run, liar));
    run.work(liar).clear();
    CHECK(run.Lease(liar));
    const auto leased = run.work(liar).front();
    for (size_t n = 0; n < Offences::kMost; ++n) run.Send(liar, Forged(leased));
    CHECK_FALSE(IsMember(&run, liar));
  };
  const auto joins = [&](const std::string& peer, uint64_t life, const std::string& name) {
    Join join;
    join.name = name;
    (void)run.core().Handle(peer, {{{77}, {life}, 1, 0, 0}, join}, run.now);
    return IsMember(&run, life);
  };
  constexpr uint64_t kFirst = (uint64_t{9} << 32) + 1, kSecond = (uint64_t{10} << 32) + 1,
                     kThird = (uint64_t{11} << 32) + 1;
  put_out(kFirst, "li ar");
  CHECK_FALSE(joins("elsewhere", 500, "li ar"));
  CHECK_FALSE(joins("peer-" + std::to_string(kFirst), 501, "other"));
  put_out(kSecond, "");
  CHECK_FALSE(joins("peer-" + std::to_string(kSecond), 502, ""));
  CHECK(joins("new", 503, ""));
  // Who asks for another's name does not keep that one out.
  CHECK(joins("honest", 504, "honest"));
  put_out(kThird, "honest");
  run.Send(504, Leave{});
  CHECK(joins("elsewhere", 505, "honest"));
}

TEST_CASE("offenders: nobody is put out where nobody gets receipts") {
  FakeCluster run;
  run.Start(2);
  for (const uint64_t worker : {11, 12}) {
    CHECK(run.Lease(worker));
    const auto leased = run.work(worker).front();
    for (size_t n = 0; n < 2 * Offences::kMost; ++n) run.Send(worker, Forged(leased));
    CHECK(IsMember(&run, worker));
    run.work(worker).clear();
  }
  CHECK(run.status().batches == 0);
}

TEST_CASE("offenders: no loss that one reports spoils what is shown for all") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Work(12));
  const double honest = run.status().work.Loss();
  for (const double loss : {1e300, -1e9}) {
    CHECK(run.Lease(11));
    BatchDone done = FakeCluster::Report(run.work(11).front().first, run.work(11).front().second);
    done.loss_sum = loss;
    run.Send(11, done);
    CHECK(run.status().work.Loss() == honest);
  }
  CHECK(run.status().offences == 2);
  // A model that diverges has great losses; then they are as great as they can be shown.
  BatchDone done = FakeCluster::Report(run.work(11).front().first, run.work(11).front().second);
  done.loss_sum = 1e12;
  run.Send(11, done);
  CHECK(run.status().offences == 2);
  CHECK(run.status().work.Loss() < 110);
  CHECK(run.status().work.Loss() > honest);
}

TEST_CASE("offenders: evaluation without receipts does not count") {
  FakeCluster run;
  run.Start(2);
  while (run.core().phase() == Phase::kTraining) CHECK(run.Work(11));
  CHECK(run.Lease(11));
  run.Send(11, Forged(run.work(11).front()));
  CHECK(run.status().offences == 1);
  run.Send(11, Leave{});  // with the other batches
  run.WorkAll(12);
  CHECK(run.core().outcome().ok());
  REQUIRE(run.evaluations.size() == 2);
  CHECK(run.evaluations[0].metrics.precision[0] == doctest::Approx(1.0));
}

TEST_CASE("offenders: receipts of an earlier plan of the generation are remembered") {
  FakeCluster run;
  run.Start(2);
  CHECK(run.Lease(11));
  const auto leased = run.work(11).front();
  BatchDone done = FakeCluster::Report(leased.first, leased.second);
  run.Join(3, Role::kServer);
  const uint32_t before = run.core().plan_version();
  run.Say({{77}, {11}, 900, 0, before}, done);
  CHECK(run.status().batches == 1);
  CHECK(run.status().offences == 0);
}

constexpr uint64_t kOtherKey = (uint64_t{20} << 32) + 2;  // a server with a key of its own

// Two servers, the second one with a key of its own, and two workers.
struct TwoKeys : FakeCluster {
  TwoKeys() {
    Join(1, Role::kServer);
    Join(kOtherKey, Role::kServer);
    Join(11, Role::kWorker);
    Join(12, Role::kWorker);
    REQUIRE(Work(12));  // which shows that servers give receipts
    REQUIRE(Lease(11));
    const auto [grant, batch] = work(11).front();
    leased = {grant.epoch, grant.unit, batch.index};
    ticket = batch.ticket;
  }
  Offence Complaint(Bytes refused) const {
    return {11, leased, "sent a ticket that does not fit its batch", std::move(refused)};
  }

  BatchId leased;
  Bytes ticket;
};

TEST_CASE_FIXTURE(TwoKeys, "offenders: the word of servers of two keys excludes a worker") {
  const Bytes forged(64);
  for (size_t n = 1; n <= Offences::kMost; ++n) {
    CHECK(IsMember(this, 11));
    Send(1, Complaint(forged));
    Send(kOtherKey, Offence{11, leased, std::string(1000, 'x'), forged});
    CHECK(status().offences == 2 * n);
  }
  CHECK_FALSE(IsMember(this, 11));
  CHECK(Noticed(event::kWorkerExcluded, {{"worker", "worker"}, {"accusers", 2}}));
  for (const Event& event : notices) {
    CHECK(event.text.find(std::string(201, 'x')) == std::string::npos);
  }
  work(11).clear();
  WorkAll(12);
  CheckAllCountedOnce();
}

TEST_CASE_FIXTURE(TwoKeys, "offenders: one server's word is shown and excludes nobody") {
  Join(3, Role::kServer);  // of the first one's key, and without slots
  for (int n = 0; n < 20; ++n) {
    Send(1, Complaint(Bytes(64)));
    Send(3, Complaint(Bytes(64)));
    now += 1000;
  }
  CHECK(IsMember(this, 11));
  CHECK(status().offences == 20);
  // It gets leases of one batch for a minute.
  const auto batches_leased = [&] {
    Send(11, LeaseRequest{});
    return std::get<LeaseGrant>(LastTo(11)).batches.size();
  };
  CHECK(batches_leased() == 1);
  now += Offences::kDoubtMs;
  CHECK(batches_leased() > 1);
  WorkAll(12);
  work(11).clear();
  CHECK(IsMember(this, 11));
}

TEST_CASE_FIXTURE(TwoKeys, "offenders: whoever is complained of and ends no batch is slowed") {
  const auto leases = [&] {
    work(11).clear();
    return Lease(11);
  };
  Send(1, Complaint(Bytes(64)));
  for (uint32_t n = 0; n < Generation::kMostInVain; ++n) CHECK(leases());
  CHECK_FALSE(leases());
  now += Generation::kSlowedLeaseMs;
  CHECK(Work(11));  // and the batch counts
  CHECK(leases());
}

TEST_CASE_FIXTURE(TwoKeys,
                  "offenders: complaints with a right ticket, or not about workers, do not count") {
  CHECK(ticket == TicketOf(core().run().lease_keys.tickets, {11}, LeaseKind::kTrain, leased));
  // A server that has the key of an earlier scheduler cannot know better.
  Send(1, Complaint(ticket));
  Send(1, Offence{99, leased, "is no member"});
  Send(1, Offence{kOtherKey, leased, "is a server"});
  Send(12, Offence{11, leased, "says another worker"});
  CHECK(status().offences == 0);
}

TEST_CASE("offenders: a server is told keys that speak for nobody else, others are told none") {
  FakeCluster run;
  run.Start(1);
  run.Join(21, Role::kObserver);
  const auto keys_to = [&](uint64_t member) {
    std::pair<Bytes, Bytes> keys;
    for (const Body& body : run.received["peer-" + std::to_string(member)]) {
      if (const auto* reply = std::get_if<JoinReply>(&body)) {
        keys = {reply->verify_key, reply->receipt_key};
      }
    }
    return keys;
  };
  const auto [verify, receipts] = keys_to(1);
  CHECK(verify.size() == 32);
  CHECK(receipts.size() == 16);
  CHECK(keys_to(2).first == verify);
  CHECK(keys_to(2).second.size() == 16);
  CHECK(keys_to(2).second != receipts);
  for (const uint64_t other : {11, 21}) {
    CHECK(keys_to(other).first.empty());
    CHECK(keys_to(other).second.empty());
  }
  run.Restart();
  CHECK(keys_to(1).first.size() == 32);
  CHECK(keys_to(1).first != verify);
  CHECK(keys_to(1).second != receipts);
}

}  // namespace
}  // namespace dslide::offenders_test
