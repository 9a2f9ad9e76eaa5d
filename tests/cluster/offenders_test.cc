// A member with a worker's key that says what is not true: it claims batches at servers, and
// reports to the scheduler what nobody has trained.
#include <doctest/doctest.h>

#include "common/net/member_link.h"
#include "common/security/run_keys.h"
#include "tests/cluster/cluster.h"
#include "tests/support/results.h"

namespace dslide::offenders_test {
namespace {

constexpr uint32_t kEpochs = 4;

// What a socket has said so far, and the next answer.
class Line {
 public:
  Line(DealerSocket socket, Incarnation as) : socket_(std::move(socket)), as_(as) {}

  // The answer to a message, which is sent again until it comes: a connection may be refused at
  // first. Other messages go to `others`.
  Message Ask(const Body& body, std::vector<Message>* others) {
    const uint64_t request = ++sequence_;
    std::optional<Message> answer;
    Poller poller;
    poller.Add(socket_);
    REQUIRE(WaitFor([&] {
      (void)socket_.TakeFailure();
      (void)socket_.Send(
          Encode({{run, as_, request, 0, plan_version}, body}, WirePrecision::kFp32));
      poller.Wait(100);
      while (const auto bytes = socket_.Receive()) {
        Message message = Ok(Decode(*bytes));
        (message.envelope.reply_to == request ? answer.emplace() : others->emplace_back()) =
            std::move(message);
      }
      return answer.has_value();
    }));
    return *std::move(answer);
  }

  // Says something and does not wait.
  void Tell(const Body& body) {
    (void)socket_.TakeFailure();
    (void)socket_.Send(
        Encode({{run, as_, ++sequence_, 0, plan_version}, body}, WirePrecision::kFp32));
  }

  RunId run;
  uint32_t plan_version = 0;

 private:
  DealerSocket socket_;
  Incarnation as_;
  uint64_t sequence_ = 0;
};

bool Has(const TestRun& run, const std::string& name) {
  const nlohmann::json status = run.Status();
  if (!status.contains("members")) return false;
  for (const auto& member : status["members"]) {
    if (member["name"] == name) return true;
  }
  return false;
}

// Of the first batch of an epoch, with no gradient at all.
EmbedRequest Claim(uint32_t epoch) {
  EmbedRequest claim{{epoch, 0, 0}, true, {}};
  for (int i = 0; i < 32; ++i) claim.features.EndRow();
  return claim;
}

TEST_CASE("offenders: who claims batches trains nothing, counts nothing, and is put out") {
  TestRun run;
  const auto train = run.Train({"--servers", "2", "--set", "security.encryption=always", "--set",
                                "train.epochs=" + std::to_string(kEpochs)},
                               kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  RunKeys keys = Ok(RunKeys::Open(run.run_directory()));
  const Result<MemberKey> eve = keys.Allow({KeyRole::kWorker, "eve", {}, 0}, std::nullopt);
  REQUIRE(eve.ok());
  const SchedulerAccess access = *AccessFrom(JoinString(*eve), "");
  const Incarnation self = DrawIncarnation(access.own());
  AccessListHolder holder;
  NetContext context;
  Line scheduler(*DealerSocket::Connect(context, access.address, access.curve), self);

  dslide::Join join;
  join.role = Role::kWorker;
  join.name = "eve";
  std::vector<Message> heard;
  const Message joined = scheduler.Ask(join, &heard);
  REQUIRE(std::holds_alternative<JoinReply>(joined.body));
  CHECK(std::get<JoinReply>(joined.body).verify_key.empty());
  CHECK(std::get<JoinReply>(joined.body).receipt_key.empty());
  scheduler.run = joined.envelope.run;
  std::optional<Plan> plan;
  for (int i = 0; i < 100 && !plan; ++i) {
    (void)scheduler.Ask(Heartbeat(), &heard);
    for (const Message& message : heard) {
      if (const auto* list = std::get_if<AccessList>(&message.body)) holder.Set(*list);
      if (const auto* known = std::get_if<Plan>(&message.body)) plan = *known;
    }
  }
  REQUIRE(plan);
  scheduler.plan_version = plan->version;

  // A report of what was never leased; that of the epoch in progress is an offence.
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    BatchDone done;
    done.batch = {epoch, 0, 0};
    done.samples = 32;
    done.loss_sum = 1e300;
    done.receipts = {42};
    CHECK(std::holds_alternative<Ack>(scheduler.Ask(done, &heard).body));
  }
  CHECK(WaitFor([&] { return run.Status()["offences"] >= 1; }));
  CHECK(run.Status()["figures"]["loss"] < 110);

  // Claims at both servers, until the scheduler has heard of enough of them.
  std::vector<Line> servers;
  for (const PlanServer& server : plan->servers) {
    DealerSocket socket = Ok(DialMember(context, holder, access, server));
    servers.emplace_back(std::move(socket), self);
    servers.back().run = scheduler.run;
    servers.back().plan_version = plan->version;
  }
  const Message refused = servers[0].Ask(Claim(0), &heard);
  REQUIRE(std::holds_alternative<ErrorReply>(refused.body));
  CHECK(std::get<ErrorReply>(refused.body).code == ErrorCode::kRefused);
  CHECK(std::get<ErrorReply>(refused.body).text ==
        "the ticket is not of batch 0.0.0 and this worker");
  CHECK(WaitFor([&] {
    for (Line& server : servers) server.Tell(Claim(1));
    scheduler.Tell(Heartbeat());
    return !Has(run, "eve");
  }));
  CHECK(run.Run("dslide", {"key", "list", run.run_directory()}) == 0);
  CHECK(Contains(run.last_output(), "quarantined"));

  CHECK(train->Wait() == 0);
  CHECK(run.Summary()["p_at_1"] > 0.9);
  CHECK(run.Run("dslide", {"ledger", "verify", run.run_directory()}) == 0);
}

}  // namespace
}  // namespace dslide::offenders_test
