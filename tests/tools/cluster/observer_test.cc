#include "tools/dslide/cluster/observer.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/support/fake_scheduler.h"
#include "tests/support/results.h"

namespace dslide::observer_test {
namespace {

using testing::FakeScheduler;

std::optional<Body> Silence(const Body&) { return std::nullopt; }

Observer Joined(const FakeScheduler& scheduler) {
  return Ok(Observer::Join({scheduler.address(), {}}, "test"));
}

TEST_CASE("observer: joins as one, asks, and leaves") {
  FakeScheduler scheduler([](const Body& request) -> std::optional<Body> {
    if (std::holds_alternative<StatusRequest>(request)) return StatusReply{"{\"a\":1}"};
    return std::nullopt;
  });
  {
    Observer observer = Joined(scheduler);
    const std::string json = Ok(observer.StatusJson());
    CHECK(json == "{\"a\":1}");
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

TEST_CASE("observer: a server is no scheduler") {
  FakeScheduler server(Silence, ErrorReply{ErrorCode::kWrongRun, "not in that run"});
  CHECK(MessageOf(Observer::Join({server.address(), {}}, "test")) ==
        "a server answers at " + server.address() + ", no scheduler; give the scheduler's address");
  FakeScheduler over(Silence, ErrorReply{ErrorCode::kRefused, "the run is finished"});
  CHECK(Observer::Join({over.address(), {}}, "test").error().message == "the run is finished");
}

TEST_CASE("observer: nobody there, or nobody who answers") {
  CHECK(
      MessageOf(Observer::Join({"tcp://127.0.0.1:1", {}}, "test", 20), ErrorKind::kTryLater) ==
      "no answer from tcp://127.0.0.1:1 within 1 s; is the scheduler running there? Its address is "
      "in the file scheduler.address of its run directory");

  FakeScheduler silent(Silence);
  Observer observer = Joined(silent);
  CHECK(MessageOf(observer.Ask(StatusRequest{}, 20), ErrorKind::kTryLater)
            .find("did not answer StatusRequest") != std::string::npos);
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
  CHECK(MessageOf(observer.Ask(DrainServer{"a"}), ErrorKind::kFailed) ==
        "the last server cannot leave");
  CHECK(MessageOf(observer.StatusJson(), ErrorKind::kFailed) ==
        "the scheduler answered Ack to a StatusRequest");
  CHECK(MessageOf(observer.Ask(CheckpointNow{}), ErrorKind::kFailed) ==
        "the run ended: training is done");
}

}  // namespace
}  // namespace dslide::observer_test
