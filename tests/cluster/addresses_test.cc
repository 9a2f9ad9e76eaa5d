// A useless address is refused where it is given, and harms no other process.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>

#include "common/net/socket.h"
#include "common/run/slot_plan.h"
#include "tests/cluster/cluster.h"
#include "tests/support/fake_scheduler.h"
#include "tests/support/results.h"

namespace dslide::addresses_test {
namespace {

using testing::FakeScheduler;

// The last line of `text`: the error with which a refused process ends.
std::string LastLine(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  const size_t start = text.rfind('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1, end - start);
}

TEST_CASE("a server refuses an address of its own that nobody can use") {
  TestRun run;
  const auto refused = [&](const Arguments& more, const std::string& line) {
    Arguments arguments = {"--scheduler", Loopback(FreePort())};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(run.Run("dslide-server", arguments) == 2);
    CHECK(run.last_errors() == "dslide-server: " + line + "\n");
  };
  refused({"--advertise", "10.0.0.2:7701"},
          "--advertise 10.0.0.2:7701: not an address; did you mean tcp://10.0.0.2:7701?");
  refused({"--advertise", "tcp://10.0.0.2"},
          "--advertise tcp://10.0.0.2: not an address; use tcp://HOST:PORT");
  refused({"--bind", "127.0.0.1:7701"},
          "--bind 127.0.0.1:7701: not an address; did you mean tcp://127.0.0.1:7701?");
  refused({"--set", "cluster.server_advertise=10.0.0.2:7701"},
          "command line: cluster.server_advertise = 10.0.0.2:7701: must be empty, tcp://host:port "
          "with one host or ipc://path");
  refused({"--set", "cluster.server_advertise=tcp://0.0.0.0:7701"},
          "command line: cluster.server_advertise = tcp://0.0.0.0:7701: must be empty, "
          "tcp://host:port with one host or ipc://path");
}

TEST_CASE("a host that no resolver knows is named at once, and servers and workers go on trying") {
  TestRun run;
  const std::string unknown = "tcp://host.invalid:7700";  // RFC 6761: ".invalid" has no names
  const auto waits = [&](const std::string& program, const Arguments& arguments) {
    CAPTURE(program);
    const auto waiting = run.Start(program, arguments);
    CHECK(WaitFor([&] {
      return Contains(waiting->Errors(), "cannot look up the host host.invalid of " + unknown);
    }));
    CHECK(waiting->Running());
    waiting->Signal(SIGTERM);
    CHECK(waiting->Wait().has_value());
  };
  waits("dslide-worker", {"--scheduler", unknown});
  waits("dslide-server", {"--scheduler", unknown, "--advertise", "tcp://host.invalid:*"});
  CHECK(run.Run("dslide", {"status", "--scheduler", unknown}) != 0);
  CHECK(Contains(run.last_errors(), "cannot look up the host host.invalid of " + unknown));
}

TEST_CASE("a scheduler refuses an address of its own that nobody can use") {
  TestRun run;
  const auto refused = [&](const std::string& setting, const std::string& rule) {
    CHECK(run.Run("dslide-scheduler", {"--config", run.config(), "--run-dir", run.run_directory(),
                                       "--set", setting}) == 2);
    CHECK(Contains(run.last_errors(), rule));
    CHECK(std::count(run.last_errors().begin(), run.last_errors().end(), '\n') == 1);
  };
  refused("cluster.scheduler_advertise=10.0.0.1:7700", "cluster.scheduler_advertise = 10.0.0.1:");
  refused("cluster.scheduler_bind=10.0.0.1:7700", "cluster.scheduler_bind = 10.0.0.1:7700: must");
  refused("cluster.status_bind=10.0.0.1:7700", "cluster.status_bind = 10.0.0.1:7700: must be");
}

// For example a server of another version, which did not check its own address.
TEST_CASE("a server that joins with an address that nobody can dial is refused, the run goes on") {
  TestRun run;
  const auto train = run.Train({"--set", "train.epochs=3"}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  NetContext context;
  auto socket = DealerSocket::Connect(context, run.SchedulerAddress());
  REQUIRE(socket.ok());
  Join join;
  join.role = Role::kServer;
  join.address = "10.0.0.2:7701";
  REQUIRE(socket->Send(Encode({{{}, {99}, 7, 0, 0}, join}, WirePrecision::kFp32)));
  std::optional<Bytes> answer;
  REQUIRE(WaitFor([&] { return (answer = socket->Receive()).has_value(); }));
  const Message message = Ok(Decode(*answer));
  CHECK(message.envelope.reply_to == 7);
  const auto* error = std::get_if<ErrorReply>(&message.body);
  REQUIRE(error != nullptr);
  CHECK(error->code == ErrorCode::kIncompatible);
  CHECK(error->text ==
        "the advertised address 10.0.0.2:7701: not an address; did you mean tcp://10.0.0.2:7701?");
  CHECK(Contains(ReadFile(run.run_directory() + "/logs/scheduler.log"),
                 "[server.refuse] a server is refused: the advertised address 10.0.0.2:7701"));
  REQUIRE(train->Wait() == 0);
  CHECK(run.Summary()["samples"] == 3 * kSamples);
}

const Arguments kQuick = {"--servers", "2",
                          "--workers", "1",
                          "--set",     "train.epochs=1000",
                          "--set",     "cluster.heartbeat_ms=500",
                          "--set",     "cluster.request_timeout_ms=1000"};

// Training goes on; a stop saves it.
void CheckGoesOn(const TestRun& run, Process* train) {
  const double trained = run.TrainedSamples();
  CHECK(WaitFor([&] { return run.TrainedSamples() > trained; }));
  CHECK(run.Status()["recoveries"] == 0);
  train->Signal(SIGTERM);
  CHECK(train->Wait() == 85);
}

TEST_CASE("a server that nobody reaches at its advertised address is refused, the run goes on") {
  TestRun run;
  const auto train = run.Train(kQuick, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  const auto refused = [&](const std::string& address, const std::string& why) {
    CHECK(run.Run("dslide-server",
                  {"--scheduler", run.SchedulerAddress(), "--advertise", address}) == 75);
    const std::string line = why + " at the advertised address " + address +
                             "; set --advertise to one at which the scheduler, the workers and the "
                             "other servers reach this server";
    CHECK(LastLine(run.last_errors()) == "dslide-server: " + line);
    CHECK(Contains(ReadFile(run.run_directory() + "/logs/scheduler.log"),
                   "[server.refuse] a server is refused: " + line));
  };
  refused(Loopback(FreePort()), "nobody answered for 5 s");
  const nlohmann::json status = run.Status();
  for (const auto& member : status["members"]) {
    if (member["role"] != "server") continue;
    refused(member["address"], "another process answers");  // a copied configuration
    break;
  }
  CheckGoesOn(run, train.get());
}

// Does what the scheduler asks, and answers nobody else.
class SilentServer {
 public:
  explicit SilentServer(const std::string& scheduler)
      : socket_(*RouterSocket::Bind(context_, "tcp://127.0.0.1:*")),
        scheduler_(*DealerSocket::Connect(context_, scheduler)) {
    Join join;
    join.role = Role::kServer;
    join.address = socket_.address();
    join.cores = 1;
    Send(join);
  }

  // Takes what has come. Why the scheduler has sent it away, "" before.
  const std::string& Step() {
    while (const auto received = socket_.Receive()) {
      const Result<Message> request = Decode(received->bytes);
      if (!request.ok() || !std::holds_alternative<StatusRequest>(request->body)) continue;
      socket_.Send(received->peer, Bytes(Enveloped(ErrorReply{ErrorCode::kWrongRun, "no run"},
                                                   request->envelope.sequence)));
    }
    while (const auto bytes = scheduler_.Receive()) {
      const Result<Message> message = Decode(*bytes);
      if (message.ok()) Take(*message);
    }
    if (run_ != RunId()) Send(Heartbeat{});
    return dismissed_;
  }
  const std::string& address() const { return socket_.address(); }
  bool planned() const { return plan_version_ > 0; }

 private:
  void Take(const Message& message) {
    run_ = message.envelope.run;
    if (const auto* plan = std::get_if<Plan>(&message.body)) {
      plan_version_ = plan->version;
      Send(Ready{plan->version, 0, 0});
    }
    if (const auto* end = std::get_if<Shutdown>(&message.body)) dismissed_ = end->reason;
  }
  Bytes Enveloped(Body body, uint64_t reply_to = 0) {
    return Encode({{run_, {99}, ++sequence_, reply_to, plan_version_}, std::move(body)},
                  WirePrecision::kFp32);
  }
  void Send(Body body) { (void)scheduler_.Send(Enveloped(std::move(body))); }

  NetContext context_;
  RouterSocket socket_;
  DealerSocket scheduler_;
  RunId run_;
  uint64_t sequence_ = 0;
  uint32_t plan_version_ = 0;
  std::string dismissed_;
};

TEST_CASE("a server that answers the scheduler but no worker is left out, the run goes on") {
  TestRun run;
  const auto train = run.Train(kQuick, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  SilentServer silent(run.SchedulerAddress());
  REQUIRE(WaitFor([&] { return !silent.Step().empty(); }));
  CHECK(silent.planned());
  CHECK(silent.Step() == "the server at " + silent.address() +
                             " does not answer the workers (do they reach the address that "
                             "--advertise names?); it is left out");
  CHECK(Contains(run.WorkerLog(1), "[server.silent]"));
  CheckGoesOn(run, train.get());
}

TEST_CASE("a server that the scheduler refuses says why, with exit code 2") {
  FakeScheduler scheduler([](const Body&) { return std::nullopt; },
                          ErrorReply{ErrorCode::kIncompatible, "the advertised address x: no"});
  TestRun run;
  CHECK(run.Run("dslide-server", {"--scheduler", scheduler.address()}) == 2);
  CHECK(LastLine(run.last_errors()) == "dslide-server: the advertised address x: no");
}

TEST_CASE("a worker goes on when a plan names an address that it cannot dial") {
  Config config;
  config.cluster.heartbeat_ms = 20;
  ResolveConfig(kFeatures, kLabels, &config);
  const Plan plan = EqualPlan(1, config.cluster.slots, {{"server-7", "10.0.0.2:7701", {1}}});
  int beats = 0;
  // The plan comes with the first request, the end of the run with the tenth heartbeat.
  FakeScheduler scheduler(
      [&](const Body& request) -> std::optional<Body> {
        if (std::holds_alternative<Heartbeat>(request) && ++beats == 10) return Shutdown{"done", 0};
        if (std::holds_alternative<Heartbeat>(request)) return plan;
        return std::nullopt;
      },
      JoinReply{"worker", FormatConfig(config), kSamples, 0});
  TestRun run;
  CHECK(run.Run("dslide-worker", {"--scheduler", scheduler.address()}) == 0);
  CHECK(Contains(run.last_errors(),
                 "server-7 has an address that is of no use: cannot connect to 10.0.0.2:7701: not "
                 "an address; did you mean tcp://10.0.0.2:7701?; its batches wait"));
  const auto& received = scheduler.Stop();
  CHECK(std::any_of(received.begin(), received.end(), [](const Message& message) {
    return std::holds_alternative<LeaseRequest>(message.body);
  }));
}

}  // namespace
}  // namespace dslide::addresses_test
