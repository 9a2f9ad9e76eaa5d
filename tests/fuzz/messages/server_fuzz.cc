// What a server does with messages of a scheduler, workers and other servers that may say anything:
// a script of messages (message_mutator.h) to a core with its executors, in one thread.
//
// `service_us` modulo 3 of a message tells who sends it. A worker's message that names another run
// or plan than the server's comes a second time with the right ones.
#include "server/core/server_core.h"

#include <algorithm>
#include <memory>
#include <string>

#include "common/base/overloaded.h"
#include "common/math/kernels.h"
#include "common/run/slot_plan.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/messages/executor_config.h"
#include "tests/fuzz/messages/message_mutator.h"

namespace dslide::server_fuzz {
namespace {

using fuzz::Inputs;

constexpr RunId kRun{77};
constexpr int64_t kStepMs = 300;   // from one message to the next
constexpr uint32_t kLargest = 64;  // of a model that is loaded here, in any direction

Config RunConfig() {
  Config config = fuzz::ExecutorConfig(2);
  config.cluster.executors = 2;
  return config;
}

class Server {
 public:
  Server() {
    Take(core_.Start(now_ms_));
    FromScheduler(JoinReply{"server", FormatConfig(RunConfig()), 1000});
    FromScheduler(EqualPlan(1, RunConfig().cluster.slots,
                            {{"server", "tcp://here:1", kSelf}, {"other", "tcp://there:1", {2}}}));
  }

  void Deliver(const Message& message) {
    const uint32_t from = message.envelope.service_us % 3;
    Handle(from, message);
    if (from != kWorker) return;
    Message right = message;
    right.envelope.run = kRun;
    right.envelope.plan_version = core_.plan_version();
    right.envelope.sequence += 1000;
    if (right != message) Handle(from, right);
  }

 private:
  static constexpr Incarnation kSelf{1};
  static constexpr uint32_t kScheduler = 0, kWorker = 1;

  void FromScheduler(Body body) { Handle(kScheduler, {{kRun, {9}, 1, 0, 1}, std::move(body)}); }

  void Handle(uint32_t from, const Message& message) {
    if (left_) return;
    now_ms_ += kStepMs;
    if (from == kScheduler) {
      Take(core_.HandleScheduler(message, now_ms_));
    } else if (from == kWorker) {
      if (core_.AcceptsRequests()) {
        Take(core_.HandleWorker("peer-" + std::to_string(message.envelope.incarnation.value % 3),
                                message, 1000 * now_ms_));
      }
    } else {
      Take(core_.HandleServer(message, 1000 * now_ms_));
    }
    if (!left_) Take(core_.Tick({}, now_ms_));
  }

  void Take(const ServerCore::Actions& actions) {
    bool exits = false;
    for (const ServerAction& action : actions) {
      std::visit(Overloaded{
                     [](const server_action::SendToScheduler& send) {
                       DSLIDE_CHECK(Decode(Encode(send.message, WirePrecision::kFp32)).ok());
                     },
                     [&](const server_action::StopExecutors&) { executors_.clear(); },
                     [&](const server_action::StartExecutors& start) { Load(*start.load); },
                     [&](const ServerWork& work) { Work(work.job_id, work.job); },
                     [&](const ServerSave& save) {
                       CheckpointDone done;
                       done.error = "no disk";
                       Take(core_.HandleSaved(save.job_id, done, now_ms_));
                     },
                     [&](const server_action::Exit&) { exits = true; },
                     [](const auto&) {},
                 },
                 action);
    }
    left_ |= exits;
  }

  // A larger model than the one of the seeds is never loaded, nor grown to: a scheduler, which is
  // trusted, may ask for four billion labels.
  void Load(const ServerLoad& load) {
    executors_.clear();
    const Config& config = load.config;
    if (config.model.features > kLargest || config.model.labels > kLargest ||
        config.model.hidden > kLargest ||
        std::ranges::any_of(config.model.dense, [](uint32_t h) { return h > kLargest; }) ||
        config.cluster.slots > kLargest || config.hash.tables > kLargest ||
        load.slots.size() > kLargest) {
      return;
    }
    for (size_t i = 0; i < load.slots.size(); ++i) {
      executors_.push_back(std::make_unique<Executor>(config, load.train_samples, load.slots[i],
                                                      Purpose::kTraining, BestKernels()));
      executors_.back()->set_local_index(static_cast<uint32_t>(i));
    }
    Work(load.job_id, LoadJob{nullptr});
  }

  void Work(uint64_t job_id, const ExecutorJob& job) {
    if (std::holds_alternative<MarkJob>(job)) return;  // there is no store
    if (const auto* slots = std::get_if<std::shared_ptr<const SlotJob>>(&job)) {
      const ModelShape* shape = (*slots)->shape.get();
      left_ |= shape != nullptr && std::max(shape->features, shape->labels) > kLargest;
    }
    for (uint32_t i = 0; i < executors_.size() && !left_; ++i) {
      JobReply reply = RunJob(job, core_.plan_version(), executors_[i].get());
      Take(core_.HandleOutcome({job_id, i, std::move(reply)}, 1000 * now_ms_));
    }
  }

  ServerCore core_{{kSelf, "", "tcp://here:1", 4, 1000}};
  std::vector<std::unique_ptr<Executor>> executors_;
  int64_t now_ms_ = 0;
  bool left_ = false;
};

bool Run(std::string_view input) {
  Server server;
  return fuzz::ForEachMessage(input, [&](const Message& message) {
    server.Deliver(message);
    return true;
  });
}

Message From(uint32_t sender, uint64_t sequence, Body body) {
  Message message{{kRun, {sender + 5}, sequence, 0, 1}, std::move(body)};
  message.envelope.service_us = sender;
  return message;
}

Inputs Seeds() {
  EmbedRequest embed{{0, 0, 1}, true, {}};
  embed.features.ids = {1, 2, 7};
  embed.features.values = {1, 1, 0.5f};
  embed.features.offsets = {0, 2, 3};
  ActiveQuery query;
  query.batch = embed.batch;
  query.hidden = Matrix(2, fuzz::kHidden);
  query.labels.ids = {2};
  query.labels.offsets = {0, 1, 1};
  query.label_totals = {1, 1};
  const std::vector<Message> batch = {From(1, 1, embed),
                                      From(1, 2, query),
                                      From(1, 3, GradientPush{embed.batch, {2, 2}}),
                                      From(1, 4, EmbedPush{embed.batch, Matrix(2, fuzz::kHidden)}),
                                      From(1, 4, Ack{}),
                                      From(1, 5, TopKRequest{query.hidden, 3, Search::kExact, {}}),
                                      From(1, 6, StatusRequest{Bytes(100)})};
  Plan next = EqualPlan(2, RunConfig().cluster.slots, {{"server", "tcp://here:1", {1}}});
  next.generation = 1;
  const std::vector<Message> plans = {From(0, 1, MoveSlots{1, {2, 3}, {1, 1}, 1000}),
                                      From(2, 1, SlotRows{}),
                                      From(2, 2, Ack{}),
                                      From(1, 1, SlotPull{0, 0, false, 1000, false}),
                                      From(0, 2, next),
                                      From(0, 3, RebuildTables{1, 2}),
                                      From(0, 4, CommitSteps{1}),
                                      From(0, 5, CheckpointRequest{"step-1", "/c", 0, {}}),
                                      From(0, 6, DropBatches{{5}}),
                                      From(0, 7, AccessList{}),
                                      From(0, 8, Shutdown{"done", 0})};
  Inputs seeds = {fuzz::ScriptOf(batch), fuzz::ScriptOf(plans)};
  for (const std::string& script : fuzz::RandomScripts(6)) seeds.push_back(script);
  return seeds;
}

const fuzz::Entered kEntered({"server", Run, Seeds, fuzz::MutateScript});

}  // namespace
}  // namespace dslide::server_fuzz
