#include "tools/dslide/cluster/drain.h"

#include <deque>

#include <doctest/doctest.h>

#include "tests/support/fake_scheduler.h"
#include "tests/support/results.h"

namespace dslide::drain_test {
namespace {

using testing::FakeScheduler;

std::string Members(const std::string& servers) {
  return R"({"members":[{"name":"w","role":"worker"})" + servers + "]}";
}
std::string Server(const std::string& name, int slots) {
  return R"(,{"name":")" + name + R"(","role":"server","slots":)" + std::to_string(slots) + "}";
}

// What a drain of `name` says, and how it ends, where the status is one of `states` after the
// other. The last one stays.
struct Outcome {
  Status status;
  std::vector<std::string> said;
  bool asked = false;
};
Outcome DrainThrough(const std::string& name, std::deque<std::string> states,
                     const Body& answer = Ack{}, const DrainOptions& options = {1, 600'000}) {
  FakeScheduler scheduler([&](const Body& request) -> std::optional<Body> {
    if (std::holds_alternative<DrainServer>(request)) return answer;
    if (!std::holds_alternative<StatusRequest>(request)) return std::nullopt;
    const StatusReply reply{states.front()};
    if (states.size() > 1) states.pop_front();
    return reply;
  });
  Outcome outcome;
  {
    Observer observer = Ok(Observer::Join({scheduler.address(), {}}, "test"));
    outcome.status = Drain(
        observer, name, [&](const std::string& line) { outcome.said.push_back(line); }, options);
  }
  for (const Message& message : scheduler.Stop()) {
    const auto* drain = std::get_if<DrainServer>(&message.body);
    if (drain == nullptr) continue;
    CHECK_FALSE(outcome.asked);
    CHECK(drain->name == name);
    outcome.asked = true;
  }
  return outcome;
}

TEST_CASE("drain: tells how many slots are left until the server is gone") {
  const std::string rest = Server("b", 64);
  const Outcome outcome =
      DrainThrough("a", {Members(Server("a", 64) + rest), Members(Server("a", 64) + rest),
                         Members(Server("a", 20) + rest), Members(Server("a", 1) + rest),
                         Members(Server("a", 0) + rest), Members(rest)});
  REQUIRE_MESSAGE(outcome.status.ok(), outcome.status.error().message);
  CHECK(outcome.asked);
  CHECK(outcome.said == std::vector<std::string>{"a: 64 slots to move", "a: 20 slots to move",
                                                 "a: 1 slot to move", "a: 0 slots to move",
                                                 "a has left"});
}

TEST_CASE("drain: a server that dies on the way has handed nothing over") {
  const auto state = [](const std::string& a_life, const std::string& gone) {
    return R"({"members":[{"name":"a","role":"server","slots":9,"life":")" + a_life +
           R"("}],"departures":[)" + gone + "]}";
  };
  const auto gone = [](const std::string& life, const std::string& lost) {
    return R"({"name":"a","role":"server","life":")" + life + R"(","lost":)" + lost +
           R"(,"why":"has been silent for 8.0 s"})";
  };
  // It comes back under its name, in another life.
  const Outcome lost =
      DrainThrough("a", {state("1", gone("0", "true")), state("1", gone("0", "true")),
                         state("2", gone("1", "true"))});
  CHECK(MessageOf(lost.status, ErrorKind::kFailed) ==
        "a was lost before all of its slots had moved: it has been silent for 8.0 s");
  const Outcome left =
      DrainThrough("a", {state("1", ""), state("1", ""), state("2", gone("1", "false"))});
  CHECK(left.status.ok());
  // Its seat is shown while it is missing.
  const std::string missing =
      R"({"members":[{"name":"a","role":"server","slots":9,"state":"missing"}],"departures":[)";
  CHECK_FALSE(DrainThrough("a", {state("1", ""), missing + gone("1", "true") + "]}"}).status.ok());
}

TEST_CASE("drain: an unknown name is answered with the servers that there are") {
  const Outcome outcome = DrainThrough("w", {Members(Server("a", 1) + Server("b", 2))});
  CHECK(MessageOf(outcome.status, ErrorKind::kFailed) ==
        "there is no server w; the servers are: a, b");
  CHECK_FALSE(outcome.asked);
  CHECK(DrainThrough("a", {Members("")}).status.error().message == "no server has joined");
}

TEST_CASE("drain: refused, stuck, or a status that says nothing") {
  const std::string alone = Members(Server("a", 4));
  const Outcome refused =
      DrainThrough("a", {alone}, ErrorReply{ErrorCode::kRefused, "nobody is there to take them"});
  CHECK(MessageOf(refused.status, ErrorKind::kFailed) == "nobody is there to take them");
  const Outcome stuck = DrainThrough("a", {alone}, Ack{}, {1, 20});
  (void)MessageOf(stuck.status, ErrorKind::kTryLater);
  CHECK(stuck.said == std::vector<std::string>{"a: 4 slots to move"});
  for (const char* json : {"", "[]", "{}", R"({"members":3})"}) {
    CHECK(DrainThrough("a", {json}).status.error().message ==
          "the scheduler's status lists no members");
  }
  // Members without what is asked for.
  CHECK(DrainThrough("a", {R"({"members":[3,{},{"role":"server"},{"role":"server","name":7}]})"})
            .status.error()
            .message == "no server has joined");
}

TEST_CASE("drain: a scheduler that does not tell slots") {
  const std::string there = R"(,{"name":"a","role":"server"})";
  const Outcome outcome = DrainThrough("a", {Members(there), Members(there), Members("")});
  REQUIRE(outcome.status.ok());
  CHECK(outcome.said == std::vector<std::string>{"a has left"});
}

}  // namespace
}  // namespace dslide::drain_test
