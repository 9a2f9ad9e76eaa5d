#include "scheduler/scheduler_shell.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/base/address.h"
#include "common/base/failpoint.h"
#include "common/base/nearest.h"
#include "common/checkpoint/disk_use.h"
#include "common/checkpoint/manifest.h"
#include "common/data/whole_file.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "common/net/permissions.h"
#include "common/run/slot_plan.h"
#include "scheduler/balance/model_size.h"
#include "scheduler/base/events.h"
#include "scheduler/members/join_limits.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMs = 100;
constexpr int64_t kAccessMs = 1000;    // between looks at the run's keys
constexpr int kHandoutMs = 10;         // while members wait for lists of keys
constexpr int64_t kFarewellMs = 3000;  // wait for the members' last messages

// A turn of the loop takes so much from the members; then time, signals and the page have their
// turn. A turn of which half was more than connections may bring is followed by a pause: what comes
// meanwhile fills the senders' queues.
constexpr size_t kTurnMessages = 256;
constexpr int64_t kTurnMs = 20;
constexpr int kFloodPauseMs = 5;
constexpr size_t kLongestOfStranger = 64 << 10;  // bytes of a message; also of an observer's
constexpr size_t kLongestOfMember = 16 << 20;    // the predictions of a batch have the most

// Why a server may not join: workers and other servers could not dial it. "" if they could.
std::string WhyUnreachable(const Message& message) {
  const auto* join = std::get_if<Join>(&message.body);
  if (join == nullptr || join->role != Role::kServer) return "";
  if (join->address.size() > kLongestAddress) return "";  // which the core refuses
  const std::string why = WhyNotDialable(join->address);
  if (why.empty()) return "";
  return fmt::format("the advertised address {}: {}", Printable(join->address), why);
}

size_t LongestFrom(const Member* member) {
  return member == nullptr || member->role == Role::kObserver ? kLongestOfStranger
                                                              : kLongestOfMember;
}

// The last name of a path.
std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Status SchedulerShell::Run(const SchedulerOptions& options, StopSignals* signals) {
  Result<std::unique_ptr<StartedRun>> run = StartRun(options, signals);
  DSLIDE_RETURN_IF_ERROR(run);
  if (*run == nullptr) return {};
  SchedulerShell shell(*std::move(run));
  return shell.Loop(signals);
}

SchedulerShell::SchedulerShell(std::unique_ptr<StartedRun> run)
    : run_directory_(run->directory),
      endpoint_(std::move(run->endpoint)),
      ledger_(std::move(run->ledger)),
      ledger_queue_(ledger_.get()),
      data_(std::move(run->data)),
      reranking_(std::move(run->reranking)),
      run_(run->inputs.run),
      core_(std::move(run->inputs), MonotonicMillis()),
      context_(endpoint_->context()),
      access_(endpoint_->access()),
      socket_(endpoint_->socket()),
      incarnation_(DrawIncarnation(access_ ? std::optional(access_->own()) : std::nullopt)),
      reporter_(run_directory_,
                {&core_, ledger_.get(), access_, &clock_, &terminal_, endpoint_->page()},
                LabelNames(data_->training.preprocessor, core_.run().config),
                std::move(run->earlier), std::move(run->contributions)),
      hook_("checkpoint.hook", run->checkpoint.hook),
      stream_(data_->stream ? data_->stream->feeder.get() : nullptr),
      stream_ends_(data_->stream && data_->stream->ends) {
  if (!run->for_hook.empty()) hook_.Offer(run->for_hook);
}

Status SchedulerShell::Loop(StopSignals* signals) {
  DSLIDE_RETURN_IF_ERROR(reporter_.state());
  reporter_.Begin(data_->notes);
  Poller poller, pause;
  pause.AddFd(signals->fd());
  auto wait = [&, changes = ~uint64_t{0}]() mutable {
    if (std::exchange(changes, prober_.changes()) != prober_.changes()) {
      poller.Clear();
      poller.Add(socket_);
      poller.AddFd(signals->fd());
      if (stream_ != nullptr) poller.AddFd(stream_->fd());
      prober_.AddTo(&poller);
    }
    poller.Wait(access_handout_.done() ? kPollMs : kHandoutMs);
  };
  auto receive = [&] {
    const Turn turn = ReceiveSome();
    ReceiveProbes();
    if (turn.dropped > turn.taken) pause.Wait(kFloodPauseMs);
  };
  int stops = 0;
  while (core_.phase() != RunPhase::kFinished || ledger_queue_.wait()) {
    wait();
    if (signals->Take() && (ledger_queue_.wait() || !EndsStream())) {
      ++stops;
      RequestStop();
    }
    receive();
    TendStream();
    RefreshAccess();
    HandOutAccess();
    MakeRoomForCheckpoint();
    Apply(core_.Tick(clock_.Millis()));
    DrainLedgerQueue();
    StoreReranker();
    TendHook();
    reporter_.Tick();
  }
  const int64_t finished_ms = clock_.Millis();
  while (!core_.AllLeft() && clock_.Millis() - finished_ms < kFarewellMs) {
    wait();
    receive();
  }
  while (reranking_ != nullptr && reranking_->in_progress() && stops < 2) {
    wait();
    if (signals->Take()) ++stops;
    receive();
    StoreReranker();
  }
  MeasureReranker();
  const Status written = reporter_.WriteSummary();
  if (stops < 2) WaitForHook(signals);  // the second signal means at once
  return core_.outcome().ok() ? written : core_.outcome();
}

void SchedulerShell::TendHook() {
  if (!hook_.exists()) return;
  const CheckpointHook::Figures before = hook_.figures();
  for (const Event& event : hook_.Tick(MonotonicMillis())) reporter_.Warning(event);
  const CheckpointHook::Figures& now = hook_.figures();
  reporter_.SetHook(now);
  if (now.running != before.running) core_.HoldCheckpoint(NameIn(now.running));
  if (now.done == before.done && now.runs == before.runs) return;
  if (now.done.empty() || !now.why.empty()) return;
  const std::string path = run_directory_ + "/" + kHookDoneName;
  if (const Status kept = WriteWholeFile(path, NameIn(now.done) + "\n"); !kept.ok()) {
    terminal_.Warn({event::kRecordsFailed, kept.error().message});
  }
}

// The run is over; its last checkpoint is worth the wait. A signal ends it, and so does a second
// failure.
void SchedulerShell::WaitForHook(StopSignals* signals) {
  if (!hook_.busy()) return;
  terminal_.Log({event::kHookWaits,
                 "waiting for checkpoint.hook with the last checkpoint; a signal ends the wait"});
  Poller pause;
  pause.AddFd(signals->fd());
  const bool done = hook_.Await(MonotonicMillis, [&] {
    if (signals->Take()) return false;
    TendHook();
    pause.Wait(kPollMs);
    return true;
  });
  if (done) return;
  terminal_.Warn(
      {event::kHookFailed, "checkpoint.hook has not succeeded with the last checkpoint"});
}

void SchedulerShell::MakeRoomForCheckpoint() {
  const int64_t now_ms = clock_.Millis();
  if (!core_.WantsRoom(now_ms)) return;
  const RunContext& run = core_.run();
  const uint64_t quota = uint64_t{run.config.checkpoint.quota_mb} << 20;
  CheckpointRoom room =
      MakeRoom({run_directory_, run.checkpoint_directory}, run.checkpoint_directory, quota,
               ModelMemoryBytes(run.config), core_.HeldCheckpoints());
  std::string problem;
  if (!room.fits) {
    problem = fmt::format(
        "no checkpoints: the run takes {} MB and the next one up to {} MB, which is more than "
        "checkpoint.quota_mb = {}; training goes on, and the last checkpoint is written in any "
        "case",
        room.used_bytes >> 20, (room.next_bytes >> 20) + 1, run.config.checkpoint.quota_mb);
  }
  reporter_.SetProblem(problem);
  if (room.removed > 0) reporter_.OnCheckpointsRemoved();
  Apply(core_.OnRoom(room.fits, std::move(room.kept), problem, now_ms));
}

SchedulerShell::Turn SchedulerShell::ReceiveSome() {
  Turn turn;
  const int64_t end_ms = MonotonicMillis() + kTurnMs;
  while (turn.taken + turn.dropped < kTurnMessages && MonotonicMillis() < end_ms) {
    const auto received = socket_.Receive();
    if (!received) break;
    if (budget_.Take(received->peer, clock_.Millis())) {
      turn.taken++;
      Take(*received);
    } else {
      turn.dropped++;
      const Member* member = core_.roster().At(received->peer);
      Warn({event::kFlood,
            fmt::format("{} sends more than {:.0f} messages a second; the others are dropped",
                        member != nullptr ? member->name : "a connection of no member",
                        member != nullptr ? MessageBudget::kOfMember : MessageBudget::kOfStranger),
            {{"name", member != nullptr ? member->name : ""}}});
    }
  }
  return turn;
}

void SchedulerShell::Take(const RouterSocket::Received& received) {
  const PeerId& peer = received.peer;
  const auto refuse = [&](ErrorReply refusal, uint64_t reply_to) {
    budget_.Charge(peer, MessageBudget::kRefused);
    Answer(peer, std::move(refusal), reply_to);
  };
  const size_t bytes = received.bytes.size();
  budget_.Charge(peer, static_cast<double>(bytes) * MessageBudget::kByte);
  const Result<Message> message =
      bytes > LongestFrom(core_.roster().At(peer))
          ? Result<Message>(BadInput(fmt::format("{} bytes are more than it may have", bytes)))
          : Decode(received.bytes);
  if (!message.ok()) {
    malformed_++;
    const std::string& text = message.error().message;
    Warn({event::kMessageMalformed,
          fmt::format("malformed message number {}: {}{}", malformed_, text,
                      received.key ? ", with the key " + ShortTextOf(*received.key) : ""),
          {{"messages", malformed_}}});
    refuse(ErrorReply{ErrorCode::kMalformed, text}, 0);
    Apply(core_.OnMalformed(peer, clock_.Millis()));
    return;
  }
  if (!ByItsConnection(peer, *message)) return budget_.Charge(peer, MessageBudget::kRefused);
  if (auto refusal = WhyRefused(received, *message)) {
    return refuse(*std::move(refusal), message->envelope.sequence);
  }
  if (std::holds_alternative<StatusRequest>(message->body)) {
    budget_.Charge(peer, MessageBudget::kStatus);
  }
  if (std::holds_alternative<Join>(message->body)) PassFailpoint(Failpoint::kSchedulerJoin);
  Apply(core_.Handle(peer, *message, clock_.Millis()));
  if (access_ && std::holds_alternative<Join>(message->body)) {
    core_.NameKey(message->envelope.incarnation, access_->NameOf(*received.key));
  }
  const Member* member = core_.roster().Find(message->envelope.incarnation);
  if (member != nullptr && member->peer == peer) {
    budget_.Promote(peer);
    if (access_ && !access_->Told(*member) && !access_handout_.Waits(member->incarnation)) {
      SendAccess(*member);
    }
  } else {
    budget_.Charge(peer, MessageBudget::kRefused);
  }
}

// A member speaks by the connection at which it was heard last. Another one is believed when that
// is broken, or when the member has been silent there: a connection may be broken without a word.
bool SchedulerShell::ByItsConnection(const PeerId& peer, const Message& message) {
  const Member* member = core_.roster().Find(message.envelope.incarnation);
  const int64_t now_ms = clock_.Millis();
  if (member == nullptr || member->peer == peer || member->life.Suspect(now_ms)) return true;
  const Message orders{{run_, incarnation_, next_sequence_++, 0, core_.plan_version()},
                       core_.OrdersFor(*member, now_ms)};
  if (!socket_.Send(member->peer, Encode(orders, WirePrecision::kFp32))) return true;
  Warn({event::kOtherConnection,
        fmt::format("somebody speaks for {} by another connection than its own; {} is dropped",
                    member->name, BodyName(message.body)),
        {{"name", member->name}}});
  return false;
}

std::optional<ErrorReply> SchedulerShell::WhyRefused(const RouterSocket::Received& received,
                                                     const Message& message) {
  std::optional<ErrorReply> refusal;
  if (access_) {
    refusal = access_->Check(*received.key, message, core_.roster());
  } else if (const Member* member = core_.roster().Find(message.envelope.incarnation);
             member != nullptr && !std::holds_alternative<Join>(message.body)) {
    // Without keys every observer is an operator.
    const KeyRole role = member->role == Role::kServer   ? KeyRole::kServer
                         : member->role == Role::kWorker ? KeyRole::kWorker
                                                         : KeyRole::kOperator;
    const std::string why = WhyForbidden(role, message.body, Receiver::kScheduler);
    if (!why.empty()) refusal = ErrorReply{ErrorCode::kRefused, why};
  }
  const auto warn = [&](Event event) {
    const auto* join = std::get_if<Join>(&message.body);
    if (join == nullptr || join->name != kDoctorName) return Warn(std::move(event));
    event.text = "dslide doctor looks: " + event.text;
    const auto admitted = doctor_lines_.Admit(std::move(event), clock_.Millis());
    if (admitted) LogDebug(*admitted);
  };
  if (refusal) {
    warn({event::kMemberRefused, refusal->text});
    return refusal;
  }
  if (const std::string why = WhyUnreachable(message); !why.empty()) {
    warn({event::kServerRefused, "a server is refused: " + why, {{"why", why}}});
    refusal = ErrorReply{ErrorCode::kIncompatible, why};
  }
  return refusal;
}

void SchedulerShell::ReceiveProbes() {
  for (const auto& [server, who] : prober_.Receive()) {
    Apply(core_.OnProbe(server, who, clock_.Millis()));
  }
  prober_.Keep([&](Incarnation server) { return core_.AwaitsProbe(server); });
}

// Tells a member that has joined whom to let in, or by which keys to dial.
void SchedulerShell::SendAccess(const Member& to) {
  std::shared_ptr<const Bytes>& bytes = access_bytes_[static_cast<size_t>(to.role)];
  if (bytes == nullptr) {
    std::optional<AccessList> list = access_->ListFor(to.role);
    if (!list) return;
    const Message message{{run_, incarnation_, next_sequence_++, 0, core_.plan_version()},
                          *std::move(list)};
    bytes = std::make_shared<const Bytes>(Encode(message, WirePrecision::kFp32));
  }
  access_handout_.Skip(to.incarnation);
  if (socket_.Send(to.peer, bytes)) access_->SetTold(to);
}

// Servers first: they let members in.
void SchedulerShell::BeginHandout() {
  access_bytes_ = {};
  std::vector<Incarnation> members;
  for (const Role role : {Role::kServer, Role::kWorker}) {
    for (const Member* member : core_.roster().Of(role)) members.push_back(member->incarnation);
  }
  access_handout_.Begin(std::move(members));
}

void SchedulerShell::HandOutAccess() {
  for (const Incarnation one : access_handout_.Next()) {
    if (const Member* member = core_.roster().Find(one)) SendAccess(*member);
  }
}

void SchedulerShell::RefreshAccess() {
  const int64_t now_ms = clock_.Millis();
  if (now_ms - budget_trimmed_ms_ >= kAccessMs) {
    budget_trimmed_ms_ = now_ms;
    budget_.Trim(now_ms);
  }
  if (access_ == nullptr || now_ms - access_read_ms_ < kAccessMs) return;
  access_read_ms_ = now_ms;
  access_->KeepOnly(core_.roster());
  WarnOfRefusals(context_, &refusal_lines_, now_ms);
  if (!access_->Refresh(SecondsSince1970())) return;
  BeginHandout();
  for (const Incarnation member : access_->Outcasts(core_.roster())) {
    Apply(core_.Expel(member, "its key does not count any more", now_ms));
  }
}

// Answers a message that does not reach the core.
void SchedulerShell::Answer(const PeerId& peer, Body body, uint64_t reply_to) {
  SchedulerCore::Effects answer;
  answer.actions.push_back(action::Send{peer, std::move(body), reply_to});
  Apply(std::move(answer));
}

// The first signal ends the stream: what has come is trained. True: this one was it.
bool SchedulerShell::EndsStream() {
  if (stream_ == nullptr || std::exchange(stream_ends_, true)) return false;
  terminal_.Announce({event::kStreamEnds, kStreamEndsLine});
  stream_->End();
  return true;
}

void SchedulerShell::TendStream() {
  if (stream_ == nullptr || segment_wanted_ == 0) return;
  std::optional<StreamFeeder::Delivery> delivery = stream_->Take();
  if (!delivery) return;
  segment_wanted_ = 0;
  if (auto* end = std::get_if<StreamEnd>(&*delivery)) {
    return Apply(core_.OnStreamEnd(std::move(*end), clock_.Millis()));
  }
  auto& fed = std::get<StreamFeeder::Fed>(*delivery);
  reporter_.SetNames(LabelNames(std::move(fed.preprocessor), core_.run().config));
  Apply(core_.OnSegment(std::move(fed.segment), clock_.Millis()));
  ForgetSegments();
}

// The run goes back to the checkpoints that are kept, and no further; without one to its beginning,
// whose preprocessors are made again.
void SchedulerShell::ForgetSegments() {
  if (stream_ == nullptr) return;
  const RunContext& run = core_.run();
  uint32_t oldest = 0;
  std::set<uint64_t> preprocessors = {run.preprocessor, core_.PreprocessorToBeSaved()};
  for (const std::string& name : CompleteCheckpoints(run.checkpoint_directory)) {
    const Result<Manifest> manifest = ReadManifest(run.checkpoint_directory + "/" + name);
    if (!manifest.ok()) return;
    if (oldest == 0) oldest = manifest->shape_epoch;
    preprocessors.insert(manifest->preprocessor);
  }
  stream_->Forget(oldest, std::move(preprocessors));
}

void SchedulerShell::Warn(Event event) {
  const auto admitted = peer_warnings_.Admit(std::move(event), clock_.Millis());
  if (admitted) terminal_.Warn(*admitted);
}

}  // namespace dslide
