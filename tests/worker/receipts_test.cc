// What a worker carries from the scheduler to servers (tickets), and back (receipts).
#include <optional>

#include "tests/worker/worker_fixture.h"

namespace dslide::receipts_test {
namespace {

Bytes TicketOf(uint32_t index) { return Bytes(64, static_cast<uint8_t>(50 + index)); }

LeaseGrant Ticketed(LeaseGrant grant) {
  for (LeaseBatch& batch : grant.batches) batch.ticket = TicketOf(batch.index);
  return grant;
}

// The ticket that a request shows; none: it begins nothing.
std::optional<Bytes> TicketIn(const Body& request) {
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) return embed->ticket;
  if (const auto* top = std::get_if<TopKRequest>(&request)) return top->ticket;
  return std::nullopt;
}

struct TwoServers : WorkerFixture {
  // Answers both servers in each of so many stages. `tickets`: how many stages show the ticket; the
  // receipts of the last stage are `of_first` and twice that.
  std::vector<uint64_t> Finish(Outbox requests, int stages, int tickets, uint64_t of_first) {
    for (int stage = 0; stage < stages; ++stage) {
      REQUIRE(requests.size() == 2);
      for (const auto& request : requests) {
        if (stage < tickets) CHECK(TicketIn(request.message.body) == TicketOf(0));
        receipt = stage + 1 < stages ? 0 : of_first << request.to;
        (void)Server(request, Answer(request.message.body));
      }
      requests = Requests(last);
    }
    const auto reports = ToScheduler<BatchDone>(last);
    REQUIRE(reports.size() == 1);
    return reports[0].receipts;
  }
};

TEST_CASE_FIXTURE(TwoServers, "a batch begins with its ticket, and its report has all receipts") {
  JoinAndPlan();
  CHECK(Finish(Requests(Scheduler(Ticketed(Grant(1)))), 4, 1, 0x10) ==
        std::vector<uint64_t>{0x10, 0x20});
}

TEST_CASE_FIXTURE(TwoServers, "an evaluation shows its ticket twice, and has receipts as well") {
  JoinAndPlan();
  CHECK(Finish(Requests(Scheduler(Ticketed(Grant(1, LeaseKind::kEvaluate)))), 2, 2, 0x10) ==
        std::vector<uint64_t>{0x10, 0x20});
}

// With the third batch, whose first request goes with the push of the first.
TEST_CASE_FIXTURE(OneServer, "the receipt of a push is not of the batch that goes with it") {
  auto requests = Requests(Scheduler(Ticketed(Grant(3))));
  REQUIRE(requests.size() == 2);  // two in flight
  const auto first = requests[0];
  auto query = Requests(Server(first, Answer(first.message.body)));
  REQUIRE(query.size() == 1);
  CHECK(As<ActiveQuery>(query[0]).finish);
  auto push = Requests(Server(query[0], Answer(query[0].message.body)));
  REQUIRE(push.size() == 1);
  REQUIRE(As<EmbedPush>(push[0]).next);
  CHECK(As<EmbedPush>(push[0]).next->ticket == TicketOf(2));
  receipt = 0x77;
  auto next = Server(push[0], Answer(push[0].message.body));
  REQUIRE(ToScheduler<BatchDone>(next).size() == 1);
  CHECK(ToScheduler<BatchDone>(next)[0].batch.index == 0);
  CHECK(ToScheduler<BatchDone>(next)[0].receipts == std::vector<uint64_t>{0x77});
  // The third batch goes on, and ends with the receipt of its own push.
  receipt = 0;
  query = Requests(next);
  REQUIRE(query.size() == 1);
  push = Requests(Server(query[0], Answer(query[0].message.body)));
  REQUIRE(push.size() == 1);
  CHECK(As<EmbedPush>(push[0]).batch.index == 2);
  receipt = 0x88;
  next = Server(push[0], Answer(push[0].message.body));
  REQUIRE(ToScheduler<BatchDone>(next).size() == 1);
  CHECK(ToScheduler<BatchDone>(next)[0].receipts == std::vector<uint64_t>{0x88});
}

TEST_CASE_FIXTURE(TwoServers, "a batch that begins again forgets the receipts of the plan before") {
  JoinAndPlan();
  auto requests = Requests(Scheduler(Ticketed(Grant(1))));
  for (int stage = 0; stage < 3; ++stage) {
    for (const auto& request : requests) (void)Server(request, Answer(request.message.body));
    requests = Requests(last);
  }
  REQUIRE(requests.size() == 2);
  receipt = 0x10;
  (void)Server(requests[0], Ack{});
  receipt = 0;
  plan.version = 2;
  plan.generation = 1;
  CHECK(Finish(Requests(Scheduler(plan, 0, 2)), 4, 1, 0x100) ==
        std::vector<uint64_t>{0x100, 0x200});
}

}  // namespace
}  // namespace dslide::receipts_test
