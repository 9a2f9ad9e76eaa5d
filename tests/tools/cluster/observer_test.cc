#include "tools/dslide/cluster/observer.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/support/fake_scheduler.h"

namespace dslide::observer_test {
namespace {

using testing::FakeScheduler;

std::optional<Body> Silence(const Body&) { return std::nullopt; }

Observer Joined(const FakeScheduler& scheduler) {
  Result<Observer> observer = Observer::Join({scheduler.address(), {}}, "test");
  REQUIRE_MESSAGE(observer.ok(), observer.error().message);
  return *std::move(observer);
}

TEST_CASE("observer: joins as one, asks, and leaves") {
  FakeScheduler scheduler([](const Body& request) -> std::optional<Body> {
    if (std::holds_alternative<StatusRequest>(request)) return StatusReply{"{\"a\":1}"};
    return std::nullopt;
  });
  {
    Observer observer = Joined(scheduler);
    const Result<std::string> json = observer.StatusJson();
    REQUIRE(json.ok());
    CHECK(*json == "{\"a\":1}");
    // Leave is on its way before the next request of anybody.
  }
  (void)Joined(scheduler).StatusJson();
  const std::vector<Message>& received = scheduler.Stop();
  REQUIRE(received.size() >= 3);
  CHECK(std::get<Join>(received[0].body).role == Role::kObserver);
  CHECK(std::get<Join>(received[0].body).name == "test");
  CHECK(received[0].envelope.run == RunId());
  CHECK(std::holds_alternative<StatusRequest>(received[1].body));
  CHECK(received[1].envelope.run == FakeScheduler::kRun);
  CHECK(received[1].envelope.incarnation == received[0].envelope.incarnation);
  CHECK(received[1].envelope.sequence > received[0].envelope.sequence);
  CHECK(std::any_of(received.begin(), received.end(), [&](const Message& m) {
    return std::holds_alternative<Leave>(m.body) &&
           m.envelope.incarnation == received[0].envelope.incarnation;
  }));
}

TEST_CASE("observer: what is no address is refused at once") {
  for (const char* address : {"", "nonsense", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:99999",
                              "udp://127.0.0.1:1"}) {
    const Result<Observer> observer = Observer::Join({address, {}}, "test");
    REQUIRE_FALSE(observer.ok());
    CHECK(observer.error().kind == ErrorKind::kBadInput);
    CHECK(observer.error().message.find("tcp://HOST:PORT") != std::string::npos);
    CHECK(observer.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("observer: a host without an address is told at once") {
  const Result<Observer> unknown = Observer::Join({"tcp://no-such-host.invalid:7700", {}}, "test");
  REQUIRE_FALSE(unknown.ok());
  CHECK_MESSAGE(unknown.error().message.starts_with(
                    "cannot look up the host no-such-host.invalid of tcp://no-such-host"),
                unknown.error().message);
}

TEST_CASE("observer: a server is no scheduler") {
  FakeScheduler server(Silence, ErrorReply{ErrorCode::kWrongRun, "not in that run"});
  const Result<Observer> observer = Observer::Join({server.address(), {}}, "test");
  REQUIRE_FALSE(observer.ok());
  CHECK(observer.error().kind == ErrorKind::kBadInput);
  CHECK(observer.error().message ==
        "a server answers at " + server.address() + ", no scheduler; give the scheduler's address");
  FakeScheduler over(Silence, ErrorReply{ErrorCode::kRefused, "the run is finished"});
  CHECK(Observer::Join({over.address(), {}}, "test").error().message == "the run is finished");
}

TEST_CASE("observer: nobody there, or nobody who answers") {
  const Result<Observer> nobody = Observer::Join({"tcp://127.0.0.1:1", {}}, "test", 20);
  REQUIRE_FALSE(nobody.ok());
  CHECK(nobody.error().kind == ErrorKind::kTryLater);
  CHECK(
      nobody.error().message ==
      "no answer from tcp://127.0.0.1:1 within 1 s; is the scheduler running there? Its address is "
      "in the file scheduler.address of its run directory");

  FakeScheduler silent(Silence);
  Observer observer = Joined(silent);
  const Result<Body> reply = observer.Ask(StatusRequest{}, 20);
  REQUIRE_FALSE(reply.ok());
  CHECK(reply.error().kind == ErrorKind::kTryLater);
  CHECK(reply.error().message.find("did not answer StatusRequest") != std::string::npos);
  CHECK(observer.Wait(1).ok());
}

TEST_CASE("observer: a refusal, another answer, the end of the run") {
  FakeScheduler scheduler([](const Body& request) -> std::optional<Body> {
    if (std::holds_alternative<DrainServer>(request)) {
      return ErrorReply{ErrorCode::kRefused, "the last server cannot leave"};
    }
    if (std::holds_alternative<StatusRequest>(request)) return Ack{};
    return Shutdown{"training is done", 0};
  });
  Observer observer = Joined(scheduler);
  const Result<Body> refused = observer.Ask(DrainServer{"a"});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().kind == ErrorKind::kFailed);
  CHECK(refused.error().message == "the last server cannot leave");
  const Result<std::string> other = observer.StatusJson();
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message == "the scheduler answered Ack to a StatusRequest");
  const Result<Body> ended = observer.Ask(CheckpointNow{});
  REQUIRE_FALSE(ended.ok());
  CHECK(ended.error().message == "the run ended: training is done");
}

}  // namespace
}  // namespace dslide::observer_test
