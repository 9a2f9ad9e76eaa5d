#include "scheduler/checkpoints/checkpointer.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/checkpoint/layout.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

// How long until a round is repeated ("again"), and how long failures may last ("patience").
constexpr int64_t kAgainMs = 1000;              // after a round that was given up
constexpr int64_t kRoomAgainMs = 10000;         // after a round found no room
constexpr int64_t kLastAgainMs = 10000;         // after the last round of a run failed
constexpr int64_t kLastPatienceMs = 600000;     // for the last round of a run
constexpr int64_t kStopAgainMs = 2000;          // after a failure in a run that was asked to stop
constexpr int64_t kStopPatienceMs = 20000;      // in such a run: service managers kill slow stops
constexpr int64_t kAgainAfterErrorMs = 30000;   // after any other round failed
static_assert(kLastAgainMs < kLastPatienceMs);  // the last round is tried several times

}  // namespace

Checkpointer::Checkpointer(const RunInputs& inputs)
    : directory_(inputs.checkpoint_directory),
      config_(inputs.config.checkpoint),
      newest_(inputs.checkpoint),
      newest_directory_(inputs.checkpoint_path),
      complete_(inputs.checkpoints) {}

std::vector<std::string> Checkpointer::held() const {
  return read_.empty() ? std::vector<std::string>() : std::vector{read_};
}

void Checkpointer::WantAfterInterval(int64_t now_ms) {
  if (config_.interval_s == 0) return;
  if (now_ms - last_ms_ >= int64_t{1000} * config_.interval_s) wanted_ = true;
}

bool Checkpointer::TriedSince(int64_t since_ms) {
  if (config_.interval_s == 0 || room_asked_ms_ != 0 || tried_ms_ >= since_ms) return true;
  wanted_ = true;
  return false;
}

void Checkpointer::WantAtOnce(int64_t now_ms) {
  wanted_ = true;
  not_before_ms_ = now_ms;
}

void Checkpointer::WantToStop(int64_t now_ms) {
  WantAtOnce(now_ms);
  stops_since_ms_ = now_ms;
}

void Checkpointer::WantFor(Incarnation member, uint64_t request, int64_t now_ms) {
  WantAtOnce(now_ms);
  // A member that asks again and again is answered once or twice.
  constexpr int64_t kMostOfMember = 4;
  const auto is_its = [&](const auto& waiter) { return waiter.first == member; };
  if (std::ranges::count_if(waiters_, is_its) >= kMostOfMember) {
    waiters_.erase(std::ranges::find_if(waiters_, is_its));
  }
  waiters_.emplace_back(member, request);
}

bool Checkpointer::Due(bool stopping, int64_t now_ms, bool last) const {
  const bool may = config_.quota_mb == 0 || has_room_ || stopping || last;
  return (wanted_ || stopping) && now_ms >= not_before_ms_ && !round() && may;
}

bool Checkpointer::WantsRoom(int64_t now_ms) const {
  if (config_.quota_mb == 0 || !wanted_ || round() || has_room_) return false;
  return room_asked_ms_ == 0 || now_ms - room_asked_ms_ >= kRoomAgainMs;
}

void Checkpointer::SetRoom(bool fits, std::vector<std::string> kept, int64_t now_ms) {
  has_room_ = fits;
  room_asked_ms_ = fits ? 0 : now_ms;
  complete_ = std::move(kept);
}

void Checkpointer::Begin(const RunContext& run, const Plan& plan, const Roster& roster,
                         Contents contents, Outbox* out) {
  DSLIDE_CHECK(!round());
  has_room_ = false;
  Manifest manifest;
  manifest.run = run.run;
  manifest.name = CheckpointName(contents.counted.batches);
  manifest.config = FormatConfig(run.config);
  manifest.epoch = contents.counted.epoch;
  manifest.batches = contents.counted.batches;
  manifest.samples = contents.counted.samples;
  manifest.done = std::move(contents.counted.done);
  manifest.train_samples = run.EpochSamples();
  manifest.train_checksum = run.train_checksum;
  manifest.preprocessor = run.preprocessor;
  manifest.shape_epoch = plan.shape.epoch;
  manifest.ledger_position = out->ledger_entries();
  std::vector<uint16_t> shard_of;  // [plan.servers]
  std::vector<CheckpointRound::Server> servers;
  for (uint32_t i = 0; i < plan.servers.size(); ++i) {
    shard_of.push_back(static_cast<uint16_t>(servers.size()));
    // A server without slots has nothing to write, so nobody waits for it.
    if (std::ranges::count(plan.slot_owner, i) == 0) continue;
    const Incarnation server = plan.servers[i].incarnation;
    servers.push_back({server, i, roster.Find(server)->name});
    generation_.writing.emplace(server, manifest.name);
  }
  for (const uint16_t owner : plan.slot_owner) manifest.slot_shard.push_back(shard_of[owner]);
  CheckpointRequest request = RequestFor(manifest, contents.committed);
  CheckpointRound answers(manifest.name, plan.version, std::move(servers));
  generation_.round.emplace(Round{std::move(answers), std::move(manifest), std::move(request),
                                  contents.stops, contents.seen, contents.now_ms});
  out->SyncLedger();
  for (const CheckpointRound::Server& server : generation_.round->answers.servers())
    out->Send(*roster.Find(server.incarnation), generation_.round->request);
}

CheckpointRequest Checkpointer::RequestFor(const Manifest& manifest, uint64_t committed) const {
  CheckpointRequest request;
  request.name = manifest.name;
  request.directory = directory_ + "/" + manifest.name;
  request.committed = committed;
  const size_t keep = std::min<size_t>(complete_.size(), config_.keep);
  request.keep.assign(complete_.end() - static_cast<ptrdiff_t>(keep), complete_.end());
  for (const std::string& name : held()) {
    if (std::ranges::count(request.keep, name) == 0) request.keep.push_back(name);
  }
  return request;
}

// A server writes one checkpoint at a time: while it does it answers requests for others with
// `retry`. Another answer says that it is done with all that came before.
void Checkpointer::OnServerFree(Incarnation server, const CheckpointDone& done) {
  std::erase_if(generation_.writing, [&](const auto& asked) {
    return asked.first == server && (!done.retry || asked.second == done.name);
  });
}

Status Checkpointer::OnDone(const Member& server, const CheckpointDone& done, bool nothing_else,
                            int64_t now_ms, Outbox* out, const Roster& roster) {
  if (!round() || generation_.round->answers.complete()) return {};
  Round& round = *generation_.round;
  if (!server.seated || done.name != round.manifest.name) return {};
  if (!done.error.empty() && done.retry) {
    GiveUp(now_ms);
    return {};
  }
  round.answers.Take(server.incarnation, done);
  if (const std::string failure = round.answers.Failure(); !failure.empty()) {
    return Fail(Failed(failure), nothing_else, now_ms, out, roster);
  }
  return {};
}

bool Checkpointer::AwaitsManifest() const {
  return round() && generation_.round->answers.complete() && !generation_.round->writes;
}

void Checkpointer::WriteManifest(Outbox* out) {
  DSLIDE_CHECK(AwaitsManifest());
  Round& round = *generation_.round;
  round.writes = true;
  round.manifest.shards = round.answers.Shards();
  out->WriteManifest(round.manifest);
}

Status Checkpointer::OnManifest(const Status& status, bool nothing_else, int64_t now_ms,
                                Outbox* out, const Roster& roster) {
  DSLIDE_CHECK(round());
  if (!status.ok()) return Fail(status.error(), nothing_else, now_ms, out, roster);
  const uint32_t stall_us = generation_.round->answers.StallUs();
  newest_ = std::move(generation_.round->manifest);
  last_round_stops_ = generation_.round->stops;
  tried_ms_ = generation_.round->began_ms;
  failing_since_ms_ = 0;
  generation_.round.reset();
  newest_directory_ = directory_ + "/" + newest_->name;
  complete_.push_back(newest_->name);
  out->Notice({event::kCheckpointWritten,
               fmt::format("checkpoint {} written; training stood still for {} ms",
                           newest_directory_, (stall_us + 999) / 1000),
               {{"checkpoint", newest_->name}, {"stall_us", stall_us}}});
  out->Record(LedgerCheckpointed{newest_->name, newest_->batches});
  return {};
}

// The servers hold what the checkpoint lacks, so it is tried again.
Status Checkpointer::Fail(const Error& error, bool nothing_else, int64_t now_ms, Outbox* out,
                          const Roster& roster) {
  const std::string line =
      fmt::format("checkpoint {}: {}", generation_.round->manifest.name, error.message);
  tried_ms_ = generation_.round->began_ms;
  generation_.round.reset();
  AnswerWaiters(line, roster, out);
  if (!nothing_else) {
    failing_since_ms_ = 0;
  } else {
    if (failing_since_ms_ == 0) failing_since_ms_ = now_ms;
    const bool too_long = stops_since_ms_ ? now_ms - *stops_since_ms_ > kStopPatienceMs
                                          : now_ms - failing_since_ms_ > kLastPatienceMs;
    if (too_long) return Error{error.kind, line};
  }
  out->Notice({event::kCheckpointFailed,
               fmt::format("{}; {}, the last good one is {}", line,
                           nothing_else ? "trying again" : "training goes on",
                           newest_directory_.empty() ? "none" : newest_directory_),
               {{"why", error.message}, {"training", !nothing_else}, {"last", newest_directory_}}});
  wanted_ = true;
  const int64_t last_again_ms = stops_since_ms_ ? kStopAgainMs : kLastAgainMs;
  not_before_ms_ = now_ms + (nothing_else ? last_again_ms : kAgainAfterErrorMs);
  return {};
}

void Checkpointer::GiveUp(int64_t now_ms) {
  if (!round()) return;
  generation_.round.reset();
  wanted_ = true;
  not_before_ms_ = now_ms + kAgainMs;
}

void Checkpointer::SendAgain(const Member& server, Outbox* out) const {
  if (!round() || !generation_.round->answers.Awaits(server.incarnation)) return;
  out->Send(server, generation_.round->request);
}

void Checkpointer::OnComplete(int64_t now_ms) {
  wanted_ = false;
  last_ms_ = now_ms;
}

void Checkpointer::AnswerWaiters(const std::string& error, const Roster& roster, Outbox* out) {
  for (const auto& [incarnation, request] : waiters_) {
    const Member* member = roster.Find(incarnation);
    if (member == nullptr) continue;
    CheckpointDone done;
    done.name = newest_directory_.substr(newest_directory_.rfind('/') + 1);
    done.shard = newest_directory_;
    out->Reply(member->peer, request,
               error.empty() ? Body(std::move(done)) : ErrorReply{ErrorCode::kRefused, error});
  }
  waiters_.clear();
}

bool Checkpointer::Writing(const Roster& roster) const {
  return round() || std::any_of(generation_.writing.begin(), generation_.writing.end(),
                                [&](const auto& asked) { return roster.Find(asked.first); });
}

std::optional<uint64_t> Checkpointer::saved_batches() const {
  return newest_ ? std::optional(newest_->batches) : std::nullopt;
}

CountedWork Checkpointer::Restore() const {
  if (!newest_) return {};
  return {newest_->epoch, newest_->batches, newest_->samples, newest_->done};
}

void Checkpointer::CheckInvariants() const {
  DSLIDE_CHECK(newest_.has_value() || newest_directory_.empty());
  DSLIDE_CHECK(!round() || generation_.round->manifest.slot_shard.size() > 0);
}

}  // namespace dslide
