// What a worker's core does with messages of a scheduler and of servers that may say anything: a
// script of messages (message_mutator.h) to a worker that has batches in flight at two servers.
//
// `service_us` modulo 3 of a message tells who sends it. If it is no reply to a request that waits,
// it comes a second time as one.
#include "worker/worker_core.h"

#include <array>
#include <string>

#include "common/run/dense_layers.h"
#include "common/run/slot_plan.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/messages/message_mutator.h"

namespace dslide::worker_fuzz {
namespace {

using fuzz::Inputs;

constexpr RunId kRun{77};
constexpr uint32_t kHidden = 3, kServers = 2;
constexpr int64_t kStepUs = 300'000;  // from one message to the next

Config RunConfig(bool dense) {
  Config config;
  config.model.hidden = kHidden;
  if (dense) config.model.dense = {kHidden + 1, kHidden};
  config.train.batches_in_flight = 2;
  ResolveConfig(20, 10, &config);
  return config;
}

Plan RunPlan() {
  return EqualPlan(1, RunConfig(false).cluster.slots,
                   {{"a", "tcp://a", {1}}, {"b", "tcp://b", {2}}});
}

LeaseGrant Grant() {
  LeaseGrant grant{3, LeaseKind::kTrain, 1, 2, 5, {}};
  for (uint32_t b = 0; b < 3; ++b) {
    LeaseBatch batch;
    batch.index = b;
    batch.features.ids = {1, 19, 4};
    batch.features.values = {1, 2, 1};
    batch.features.offsets = {0, 2, 3};
    batch.labels.ids = {0, 9};
    batch.labels.offsets = {0, 1, 2};
    grant.batches.push_back(batch);
  }
  return grant;
}

class Member {
 public:
  // `dense`: of a model with dense layers.
  explicit Member(bool dense) {
    Take(core_.Start(now_us_));
    FromScheduler(JoinReply{"worker", FormatConfig(RunConfig(dense)), 100});
    FromScheduler(RunPlan());
    FromScheduler(Grant());
  }

  // False: it has left.
  bool Deliver(const Message& message) {
    const uint32_t from = message.envelope.service_us % 3;
    Handle(from, message);
    if (from == kServers || message.envelope.reply_to == waiting_[from]) return !left_;
    Message reply = message;
    reply.envelope.run = kRun;
    reply.envelope.reply_to = waiting_[from];
    Handle(from, reply);
    return !left_;
  }

 private:
  void FromScheduler(Body body) { Handle(kServers, {{kRun, {9}, 1, 0, 1}, std::move(body)}); }

  void Handle(uint32_t from, const Message& message) {
    if (left_) return;
    now_us_ += kStepUs;
    Take(core_.Handle(from == kServers ? WorkerCore::kScheduler : from, message, 100, now_us_));
    if (!left_) Take(core_.Tick({}, now_us_));
  }

  void Take(const WorkerCore::Effects& effects) {
    for (const auto& out : effects.send) {
      const Bytes bytes = Encode(out.message, out.precision);
      DSLIDE_CHECK(Decode(bytes).ok());
      core_.NoteSent(out.message, bytes.size());
      if (out.to < kServers) waiting_[out.to] = out.message.envelope.sequence;
    }
    left_ |= effects.exit.has_value();
  }

  WorkerCore core_{{5}, "w", 2};
  int64_t now_us_ = 0;
  bool left_ = false;
  std::array<uint64_t, kServers> waiting_ = {};  // by server: the sequence of its last request
};

// A script whose first message has rows of dense layers is for a model with them.
bool IsDense(std::string_view input) {
  const std::vector<std::string_view> messages = fuzz::MessagesOf(input);
  if (messages.empty()) return false;
  const Result<Message> message = fuzz::DecodeMessage(messages.front());
  const auto* embed = message.ok() ? std::get_if<EmbedReply>(&message->body) : nullptr;
  return embed != nullptr && embed->dense;
}

bool Run(std::string_view input) {
  Member member(IsDense(input));
  return fuzz::ForEachMessage(input,
                              [&](const Message& message) { return member.Deliver(message); });
}

Message From(uint32_t sender, Body body) {
  Message message{{kRun, {sender + 1}, 1, 0, 1}, std::move(body)};
  message.envelope.service_us = sender;
  return message;
}

ActiveReply Active() {
  ActiveReply reply;
  reply.max = {1, 1};
  reply.sum_exp = {2, 2};
  reply.target_logit = {0.25f, 0.5f};
  reply.active = {4, 4};
  reply.active_rows = 5;
  return reply;
}

// A batch of a model with dense layers.
std::vector<Message> DenseScript() {
  const Config config = RunConfig(true);
  const Plan plan = RunPlan();
  const Matrix partial(2, kHidden);
  std::vector<EmbedReply> embedded(kServers, EmbedReply{partial, LayerRows()});
  for (uint32_t d = 0; d < DenseRowCount(config.model); ++d) {
    const uint32_t id = FirstDenseId(config.model) + d;
    const uint16_t owner = plan.slot_owner[InputSlots(config.cluster).SlotOf(id).value];
    embedded[owner].dense->ids.push_back(id);
  }
  std::vector<Message> script;
  for (uint32_t server = 0; server < kServers; ++server) {
    LayerRows& rows = *embedded[server].dense;
    rows.values = Matrix(static_cast<uint32_t>(rows.ids.size()), kHidden);
    for (float& x : rows.values.data) x = 0.5f;
    script.push_back(From(server, embedded[server]));
  }
  for (const Body& body : {Body(Active()), Body(GradientReply{partial}), Body(Ack{})}) {
    for (uint32_t server = 0; server < kServers; ++server) script.push_back(From(server, body));
  }
  return script;
}

Inputs Seeds() {
  const Matrix partial(2, kHidden);
  std::vector<Message> batch;
  for (const Body& body : {Body(EmbedReply{partial}), Body(Active()), Body(GradientReply{partial}),
                           Body(Ack{}), Body(EmbedReply{partial})}) {
    for (uint32_t server = 0; server < kServers; ++server) batch.push_back(From(server, body));
  }
  Plan next = RunPlan();
  next.version = 2;
  next.generation = 1;
  const std::vector<Message> scheduler = {From(kServers, HeartbeatReply{2, 100}),
                                          From(kServers, Grant()),
                                          From(kServers, next),
                                          From(0, ErrorReply{ErrorCode::kStalePlan, "old"}),
                                          From(1, Active()),
                                          From(kServers, LeaseWait{100, false}),
                                          From(kServers, ErrorReply{ErrorCode::kFenced, "gone"}),
                                          From(kServers, Shutdown{"done", 0})};
  Inputs seeds = {fuzz::ScriptOf(batch), fuzz::ScriptOf(scheduler), fuzz::ScriptOf(DenseScript())};
  for (const std::string& script : fuzz::RandomScripts(4)) seeds.push_back(script);
  return seeds;
}

const fuzz::Entered kEntered({"worker", Run, Seeds, fuzz::MutateScript});

}  // namespace
}  // namespace dslide::worker_fuzz
