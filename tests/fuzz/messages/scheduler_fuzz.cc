// What the scheduler's core does with messages that anybody may send: a script of messages
// (message_mutator.h) to a cluster of two servers and two workers that train.
//
// Members 1 and 2 are servers, 11 and 12 workers. A message that names another run or plan than the
// cluster's comes a second time with the right ones.
#include "scheduler/core/scheduler_core.h"

#include <string>

#include "common/data/checksum.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/messages/message_mutator.h"
#include "tests/support/numbered_samples.h"

namespace dslide::scheduler_fuzz {
namespace {

using fuzz::Inputs;

constexpr RunId kRun{77};
constexpr int64_t kStepMs = 700;  // from one message to the next

Config RunConfig(bool synchronous) {
  Config config;
  config.train.epochs = 2;
  config.train.batch = 4;
  config.train.unit_batches = 3;
  config.train.staleness = synchronous ? 0 : -1;
  config.train.audit = 0.5f;
  config.cluster.servers = 2;
  config.cluster.slots = 4;
  ResolveConfig(50, 10, &config);
  return config;
}

class Cluster {
 public:
  explicit Cluster(bool synchronous)
      : core_(
            {{RunConfig(synchronous), kRun, &Train(), &Test(), "/checkpoints", Checksum(Train())}},
            0) {
    for (const uint64_t server : {1u, 2u}) {
      Join join;
      join.role = Role::kServer;
      join.address = "tcp://127.0.0.1:" + std::to_string(5000 + server);
      Send(server, join);
      Take(core_.OnProbe({server}, {server}, now_ms_));
      Send(server, join);
    }
    for (const uint64_t server : {1u, 2u}) Send(server, Ready{core_.plan_version(), 30, 1000});
    for (const uint64_t worker : {11u, 12u}) {
      Send(worker, Join{});
      Send(worker, LeaseRequest{});
    }
  }

  void Send(uint64_t member, Body body) {
    Deliver({{kRun, {member}, ++sequence_, 0, core_.plan_version()}, std::move(body)});
  }

  void Deliver(const Message& message) {
    if (core_.phase() == SchedulerCore::Phase::kFinished) return;
    now_ms_ += kStepMs;
    const PeerId peer = "peer-" + std::to_string(message.envelope.incarnation.value % 16);
    Take(core_.Handle(peer, message, now_ms_));
    if (core_.phase() == SchedulerCore::Phase::kFinished) return;
    Take(core_.Tick(now_ms_));
    (void)core_.Describe(now_ms_);
  }

  void DeliverRight(Message message) {
    if (message.envelope.run == kRun && message.envelope.plan_version == core_.plan_version())
      return;
    constexpr uint64_t kMembers[] = {1, 2, 11, 12};
    message.envelope.run = kRun;
    message.envelope.plan_version = core_.plan_version();
    message.envelope.incarnation = {kMembers[message.envelope.incarnation.value % 4]};
    Deliver(message);
  }

 private:
  static const Dataset& Train() {
    static const Dataset data = NumberedSamples(50, 10);
    return data;
  }
  static const Dataset& Test() {
    static const Dataset data = NumberedSamples(20, 10);
    return data;
  }

  void Take(const SchedulerCore::Effects& effects) {
    for (const SchedulerAction& one : effects.actions) {
      if (const auto* send = std::get_if<action::Send>(&one)) {
        // Every message can be decoded.
        const Bytes bytes =
            Encode({{kRun, {9}, 1, send->reply_to, 1}, *send->body}, WirePrecision::kFp32);
        DSLIDE_CHECK(Decode(bytes).ok());
      } else if (std::holds_alternative<action::WriteManifest>(one)) {
        Take(core_.OnManifest({}, now_ms_));
      }
    }
  }

  SchedulerCore core_;
  int64_t now_ms_ = 0;
  uint64_t sequence_ = 0;
};

bool Run(std::string_view input) {
  if (input.empty()) return false;
  Cluster cluster(input[0] % 2 == 1);
  return fuzz::ForEachMessage(input.substr(1), [&](const Message& message) {
    cluster.Deliver(message);
    cluster.DeliverRight(message);
    return true;
  });
}

std::string Mutate(std::string_view input, Random* random) {
  if (input.empty()) return "0";
  return input[0] + fuzz::MutateScript(input.substr(1), random);
}

Message From(uint64_t member, uint64_t sequence, Body body) {
  return {{kRun, {member}, sequence, 0, 1}, std::move(body)};
}

Inputs Seeds() {
  BatchDone done;
  done.samples = 4;
  done.lease = 1;
  const std::vector<Message> training = {
      From(11, 100, done),
      From(11, 101, Heartbeat{}),
      From(12, 100, done),
      From(12, 101, LeaseRequest{}),
      From(1, 100, StepsCommitted{1}),
      From(1, 101, Heartbeat{}),
      From(3, 1, CheckpointNow{}),
      From(1, 102, CheckpointDone{"step-000000000001", "", "shard-1-0", 5, 10, {}}),
      From(3, 2, DrainServer{"server-1"}),
      From(1, 103, MoveReady{1, 5, 0}),
      From(2, 100, Leave{}),
      From(3, 3, StatusRequest{})};
  Inputs seeds = {"0" + fuzz::ScriptOf(training), "1" + fuzz::ScriptOf(training)};
  for (const std::string& script : fuzz::RandomScripts(3)) seeds.push_back("0" + script);
  return seeds;
}

const fuzz::Entered kEntered({"scheduler", Run, Seeds, Mutate});

}  // namespace
}  // namespace dslide::scheduler_fuzz
