// One process that floods the scheduler, speaks for others or makes things up: the run goes on.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "common/net/socket.h"
#include "common/run/scheduler_link.h"
#include "tests/cluster/cluster.h"

namespace dslide::flood_test {
namespace {

// A process that speaks to the scheduler as it likes.
class Stranger {
 public:
  explicit Stranger(const std::string& scheduler)
      : socket_(*DealerSocket::Connect(context_, scheduler)), link_(DrawIncarnation({})) {}

  uint64_t Send(const Body& body) { return SendAs(link_.incarnation(), body); }
  uint64_t SendAs(Incarnation who, const Body& body) {
    Envelope envelope = link_.Next(0);
    envelope.incarnation = who;
    (void)socket_.Send(Encode({envelope, body}, WirePrecision::kFp32));
    return envelope.sequence;
  }
  void SendBytes(const Bytes& bytes) { (void)socket_.Send(bytes); }
  // The next message of one kind.
  template <typename T>
  std::optional<T> Await() {
    Poller poller;
    poller.Add(socket_);
    const auto is_one = [](const Message& m) { return std::holds_alternative<T>(m.body); };
    auto found = std::ranges::find_if(came_, is_one);
    (void)WaitFor([&] {
      if (found != came_.end()) return true;
      poller.Wait(100);
      Receive();
      return (found = std::ranges::find_if(came_, is_one)) != came_.end();
    });
    if (found == came_.end()) return std::nullopt;
    T body = std::get<T>(std::move(found->body));
    came_.erase(found);
    return body;
  }
  bool Join(Role role, const std::string& name) {
    dslide::Join join;
    join.role = role;
    join.name = name;
    Send(join);
    return Await<JoinReply>().has_value();
  }

 private:
  void Receive() {
    while (const auto bytes = socket_.Receive()) {
      Result<Message> message = Decode(*bytes);
      if (!message.ok()) continue;
      if (std::holds_alternative<JoinReply>(message->body)) link_.Joined(message->envelope.run);
      came_.push_back(*std::move(message));
    }
  }

  NetContext context_;
  DealerSocket socket_;
  SchedulerLink link_;
  std::vector<Message> came_;  // and was not asked for yet
};

// A connection to loopback.
class Connection {
 public:
  explicit Connection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  Connection(const Connection&) = delete;
  ~Connection() { close(fd_); }
  void Send(const std::string& bytes) { (void)send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

 private:
  int fd_;
};

// A run that lasts until it is stopped.
struct LongRun : TestRun {
  explicit LongRun(const Arguments& more = {}) {
    Arguments all = {"--servers", "2", "--workers", "2", "--set", "train.epochs=100000"};
    all.insert(all.end(), more.begin(), more.end());
    train = Train(all, kSlowly);
    REQUIRE(WaitFor([&] { return TrainedSamples() > 0; }));
  }
  void Stop() {
    train->Signal(SIGTERM);
    CHECK(train->Wait() == 85);
  }
  std::string SchedulerLog() const { return ReadFile(run_directory() + "/logs/scheduler.log"); }
  bool GoesOn() {
    const double samples = TrainedSamples();
    return WaitFor([&] { return TrainedSamples() > samples + kSamples; });
  }
  std::unique_ptr<Process> train;
};

TEST_CASE("flood: messages without end leave the run its time, and it stops when it is told to") {
  LongRun run;
  Stranger observer(run.SchedulerAddress()), garbler(run.SchedulerAddress());
  REQUIRE(observer.Join(Role::kObserver, "flood"));
  const auto flood = [&] {
    for (int i = 0; i < 500; ++i) {
      observer.Send(StatusRequest{});
      garbler.SendBytes(Bytes(50, 7));
    }
  };
  const double samples = run.TrainedSamples();
  // A machine that is busy may let the flood grow only after some batches.
  CHECK(WaitFor([&] {
    flood();
    return run.TrainedSamples() > samples + kSamples &&
           Contains(run.SchedulerLog(), "[member.flood] flood ");
  }));
  CHECK(Contains(run.SchedulerLog(), "[net.message.malformed]"));
  CHECK(run.SchedulerLog().size() < 100'000);
  CHECK(observer.Await<StatusReply>().has_value());
  run.train->Signal(SIGTERM);
  CHECK(WaitFor([&] {
    flood();
    return !run.train->Running();
  }));
  CHECK(run.train->Wait() == 85);
}

TEST_CASE("flood: names and claims that make no sense are refused, and leave nothing") {
  LongRun run;
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(std::make_unique<Stranger>(run.SchedulerAddress()));
    Join join;
    join.name = std::string(60'000, 'x');
    strangers.back()->Send(join);
  }
  for (const auto& stranger : strangers) {
    const auto refusal = stranger->Await<ErrorReply>();
    REQUIRE(refusal.has_value());
    CHECK(refusal->code == ErrorCode::kIncompatible);
    CHECK(refusal->text == "its name has 60000 bytes, a name has at most 64");
  }
  Join join;
  join.name = std::string(1'000'000, 'x');
  strangers[0]->Send(join);
  const auto refusal = strangers[0]->Await<ErrorReply>();
  REQUIRE(refusal.has_value());
  CHECK(refusal->code == ErrorCode::kMalformed);
  CHECK(run.Run("dslide", {"status", "--scheduler", run.SchedulerAddress()}) == 0);
  CHECK(run.Status()["members"].size() == 4);
  run.Stop();
}

TEST_CASE("flood: nobody speaks for a member that is there") {
  LongRun run({"--set", "checkpoint.interval_s=1"});
  Stranger spy(run.SchedulerAddress());
  REQUIRE(spy.Join(Role::kWorker, "spy"));
  const auto plan = spy.Await<Plan>();  // which has the servers' incarnations
  REQUIRE(plan.has_value());
  REQUIRE(plan->servers.size() == 2);
  CheckpointDone forged;
  forged.shard = "../../../evil";
  forged.error = "forged";
  for (int i = 0; i < 20; ++i) {
    for (const PlanServer& server : plan->servers) {
      spy.SendAs(server.incarnation, Leave{});
      for (uint64_t batches = 0; batches < 20; ++batches) spy.SendAs(server.incarnation, forged);
    }
    spy.Send(Heartbeat{});
  }
  CHECK(WaitFor([&] {
    spy.Send(Heartbeat{});
    return Contains(run.SchedulerLog(), "[member.connection.other]");
  }));
  CHECK(run.GoesOn());
  CHECK(run.Status()["recoveries"] == 0);
  CHECK(run.Status().dump().find("incarnation") == std::string::npos);
  // What no worker may say is refused under its own name, too.
  spy.Send(DrainServer{"server-1"});
  const auto refusal = spy.Await<ErrorReply>();
  REQUIRE(refusal.has_value());
  CHECK(refusal->text == "a key of role worker may not send DrainServer to the scheduler");
  spy.Send(Leave{});
  run.Stop();
  CHECK_FALSE(Contains(run.SchedulerLog(), "forged"));
}

TEST_CASE("flood: the status page outside loopback wants the token of the run directory") {
  TestRun run;
  const int port = FreePort();
  const Arguments arguments = {"--config",  run.config(),
                               "--run-dir", run.run_directory(),
                               "--set",     "cluster.status_bind=tcp://*:" + std::to_string(port)};
  const std::string path = run.run_directory() + "/keys/status.token";
  // By a host at which others reach this machine.
  const std::string url = ":" + std::to_string(port) + "/#token=";
  httplib::Client client("127.0.0.1", port);
  const auto ask = [&](const std::string& token) {
    const auto answer = client.Get("/api/status", {{"Authorization", "Bearer " + token}});
    REQUIRE(answer);
    return answer->status;
  };
  std::string token;
  for (const bool again : {false, true}) {
    const auto scheduler = run.Start("dslide-scheduler", arguments);
    REQUIRE(WaitFor([&] { return Contains(scheduler->Output(), "status page: "); }));
    token = ReadFile(path).substr(0, 43);
    CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::mask) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    CHECK(Contains(scheduler->Output(), "status page: http://"));
    CHECK_FALSE(Contains(scheduler->Output(), "0.0.0.0"));
    CHECK(Contains(scheduler->Output(), url + (again ? "... (of " + path + ")" : token) + "\n"));
    CHECK_FALSE(Contains(scheduler->Errors(), token));
    CHECK(ask(token) == 200);
    CHECK(ask(token.substr(1)) == 401);
    CHECK(client.Get("/metrics")->status == 401);
    CHECK(client.Get("/")->status == 200);
    scheduler->Signal(SIGTERM);
    REQUIRE(scheduler->Wait().has_value());
  }
}

TEST_CASE("flood: slow clients of the status page do not keep the scheduler") {
  LongRun run;
  const std::string log = run.train->Output();
  const size_t at = log.find("status page: http://127.0.0.1:");
  REQUIRE(at != std::string::npos);
  const int port =
      std::atoi(log.c_str() + at + std::string("status page: http://127.0.0.1:").size());
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 600; ++i) {
    slow.push_back(std::make_unique<Connection>(port));
    slow.back()->Send(i % 2 == 0 ? "" : "GET /api/history HTTP/1.1\r\nX");
  }
  CHECK(run.GoesOn());  // by the page
  run.Stop();
}

}  // namespace
}  // namespace dslide::flood_test
