// Members and schedulers of different versions: what does not fit ends with one line that names it,
// and what to do.
#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "common/config/config.h"
#include "common/net/socket.h"
#include "common/wire/messages.h"
#include "tests/cluster/cluster.h"
#include "tests/support/fake_scheduler.h"

namespace dslide::version_members_test {
namespace {

using testing::FakeScheduler;

std::string LastLine(const std::string& text) {
  const std::string line = text.substr(0, text.find_last_not_of('\n') + 1);
  return line.substr(line.rfind('\n') + 1);
}

// Between a member and a scheduler: the member's Join has another protocol version.
class OlderMembers {
 public:
  OlderMembers(const std::string& scheduler, uint32_t protocol)
      : protocol_(protocol),
        members_(*RouterSocket::Bind(context_, "tcp://127.0.0.1:*")),
        scheduler_(*DealerSocket::Connect(context_, scheduler)),
        address_(members_.address()),
        thread_([this] { Pass(); }) {}
  ~OlderMembers() {
    stop_ = true;
    thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  void Pass() {
    Poller poller;
    poller.Add(members_);
    poller.Add(scheduler_);
    PeerId last;
    while (!stop_) {
      poller.Wait(5);
      while (auto received = members_.Receive()) {
        last = received->peer;
        Result<Message> message = Decode(received->bytes);
        if (!message.ok()) continue;
        if (auto* join = std::get_if<Join>(&message->body)) join->protocol = protocol_;
        (void)scheduler_.Send(Encode(*message, WirePrecision::kFp32));
      }
      while (auto bytes = scheduler_.Receive()) (void)members_.Send(last, *std::move(bytes));
    }
  }

  const uint32_t protocol_;
  NetContext context_;
  RouterSocket members_;
  DealerSocket scheduler_;
  std::string address_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_CASE("a member of another protocol version is refused with both versions, the run goes on") {
  TestRun run;
  const auto train = run.Train({"--set", "train.epochs=1000"}, kSlowly);
  REQUIRE(WaitFor([&] { return run.TrainedSamples() > 0; }));
  for (const uint32_t protocol : {kProtocolVersion - 1, kProtocolVersion + 1}) {
    const OlderMembers proxy(run.SchedulerAddress(), protocol);
    const std::string why = "protocol " + std::to_string(protocol) + ", this scheduler speaks " +
                            std::to_string(kProtocolVersion) + "; use binaries of one version";
    for (const std::string program : {"dslide-worker", "dslide-server"}) {
      CAPTURE(program);
      CHECK(run.Run(program, {"--scheduler", proxy.address()}) == 2);
      CHECK(LastLine(run.last_errors()) == program + ": " + why);
    }
    CHECK(run.Run("dslide", {"status", "--scheduler", proxy.address()}) == 1);
    CHECK(LastLine(run.last_errors()) == "dslide status: " + why);
  }
  const double trained = run.TrainedSamples();
  CHECK(WaitFor([&] { return run.TrainedSamples() > trained; }));
  train->Signal(SIGTERM);
  CHECK(train->Wait() == 85);
}

TEST_CASE("a member that does not know a key or a value of a newer scheduler says so") {
  TestRun run;
  Config config;
  ResolveConfig(kFeatures, kLabels, &config);
  struct Case {
    const char* setting;
    const char* line;
  };
  for (const Case& one : {Case{"sparkle = 3",
                               "the scheduler is of a newer version: its configuration has "
                               "train.sparkle, which is unknown "
                               "here; install the scheduler's version on this machine"},
                          Case{"optimizer = magic",
                               "the scheduler is of another version: install the scheduler's "
                               "version on this machine"}}) {
    std::string text = FormatConfig(config);
    const std::string name(one.setting, std::string(one.setting).find(' '));
    if (const size_t at = text.find("\n" + name + " = "); at != std::string::npos) {
      text.erase(at, text.find('\n', at + 1) - at);
    }
    text.insert(text.find("[train]\n") + 8, std::string(one.setting) + "\n");
    FakeScheduler scheduler([](const Body&) { return std::nullopt; },
                            JoinReply{"member", text, kSamples, 0});
    for (const std::string program : {"dslide-worker", "dslide-server"}) {
      CAPTURE(program);
      CHECK(run.Run(program, {"--scheduler", scheduler.address()}) == 2);
      const std::string last = LastLine(run.last_errors());
      CHECK(last.starts_with(program + ": "));
      CHECK(last.ends_with(one.line));
      CHECK(Contains(last, one.setting[0] == 's' ? "train.sparkle" : "train.optimizer = magic"));
    }
  }
}

}  // namespace
}  // namespace dslide::version_members_test
