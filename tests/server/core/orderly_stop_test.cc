#include "server/core/orderly_stop.h"

#include <doctest/doctest.h>

#include "tests/server/support/sorted_actions.h"

namespace dslide::orderly_stop_test {
namespace {

struct StoppingServer {
  ServerOutbox out{{1}};
  OrderlyStop stop;
  OrderlyStop::Situation server{true, true, false, 2, 20, "server-2"};

  // What was sent to the scheduler at that time.
  std::vector<Message> At(int64_t now_ms) {
    stop.Advance(server, now_ms, &out);
    stop.CheckInvariants(out.link());
    return SortedActions(out.Drain()).to_scheduler;
  }
  OrderlyStop::Answer Answer(uint64_t to, Body body, int64_t now_ms) {
    return stop.Take({{{}, {9}, 1, to, 1}, std::move(body)}, server, now_ms, &out);
  }
};

TEST_CASE_FIXTURE(StoppingServer,
                  "first its slots go to others, then a checkpoint, then it leaves") {
  CHECK(At(0).empty());
  stop.Request(server, 0, &out);
  auto sent = SortedActions(out.Drain()).to_scheduler;
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].body == Body{DrainServer{"server-2"}});
  CHECK(At(1999).empty());
  CHECK(At(2000).size() == 1);  // asks again
  sent = At(20'000);
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].body == Body{CheckpointNow{}});
  CHECK(At(39'999).empty());
  stop.Advance(server, 40'000, &out);
  CHECK(out.exits());
}

TEST_CASE_FIXTURE(StoppingServer,
                  "where others cannot take its slots it asks for a checkpoint at once") {
  SUBCASE("the only server") { server.servers = 1; }
  SUBCASE("cluster.drain_s = 0") { server.drain_s = 0; }
  stop.Request(server, 0, &out);
  const auto sent = SortedActions(out.Drain()).to_scheduler;
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].body == Body{CheckpointNow{}});
  CHECK(Answer(7, CheckpointDone{}, 1) == OrderlyStop::Answer::kNotToThis);
  CHECK(Answer(sent[0].envelope.sequence, CheckpointDone{}, 1) == OrderlyStop::Answer::kTaken);
  CHECK(SortedActions(out.Drain()).exit->error().kind == ErrorKind::kPreempted);
}

TEST_CASE_FIXTURE(StoppingServer, "it writes the checkpoint to the end, however long that takes") {
  server.servers = 1;
  stop.Request(server, 0, &out);
  CHECK(SortedActions(out.Drain()).to_scheduler.size() == 1);
  server.saving = true;
  for (int64_t now_ms = 1000; now_ms <= 600'000; now_ms += 1000) CHECK(At(now_ms).empty());
  server.saving = false;
  CHECK(At(619'999).empty());
  CHECK_FALSE(out.exits());
  stop.Advance(server, 620'000, &out);
  CHECK(out.exits());
}

TEST_CASE_FIXTURE(StoppingServer, "a refused handover is a decision, other errors are not") {
  stop.Request(server, 0, &out);
  const uint64_t drain = SortedActions(out.Drain()).to_scheduler.at(0).envelope.sequence;
  CHECK(Answer(drain, ErrorReply{ErrorCode::kWrongRun, "who?"}, 1) ==
        OrderlyStop::Answer::kOtherError);
  CHECK(SortedActions(out.Drain()).to_scheduler.empty());
  CHECK(Answer(drain, ErrorReply{ErrorCode::kRefused, "no"}, 1) == OrderlyStop::Answer::kTaken);
  const auto sent = SortedActions(out.Drain()).to_scheduler;
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].body == Body{CheckpointNow{}});
  // The next life of the scheduler has not heard of it, or does not know the server.
  CHECK(At(5000).empty());
  stop.MeetScheduler();
  const auto again = At(5000);
  REQUIRE(again.size() == 1);
  CHECK(Answer(again[0].envelope.sequence, ErrorReply{ErrorCode::kWrongRun, "who?"}, 5001) ==
        OrderlyStop::Answer::kOtherError);
  CHECK(At(8000).size() == 1);
}

TEST_CASE_FIXTURE(StoppingServer,
                  "it ends at once without loaded slots, and at the second signal") {
  SUBCASE("nothing loaded") { server.loaded = false; }
  SUBCASE("twice") { stop.Request(server, 0, &out); }
  stop.Request(server, 1, &out);
  CHECK(out.exits());
}

TEST_CASE_FIXTURE(StoppingServer, "a server whose slots have left waits until others have them") {
  server.has_slots = false;
  stop.Request(server, 0, &out);
  CHECK(At(19'999).empty());
  CHECK_FALSE(out.exits());
  stop.Advance(server, 20'000, &out);
  CHECK(out.exits());
}

}  // namespace
}  // namespace dslide::orderly_stop_test
