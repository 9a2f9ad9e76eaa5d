// A member's link to the scheduler: who the member is, how its messages are numbered, and when it
// joins again, counts the scheduler as silent, or owes a heartbeat.
//
// A member has one life after another, each with its own incarnation. The sequence of its messages
// goes on from life to life, so a reply tells which life it is for.
//
// Invariants: sequences ascend from 1; this life's first sequence is at most the next one.
// Pure: time comes in as milliseconds of the member's monotonic clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/config/config.h"
#include "common/wire/messages.h"

namespace dslide {

class SchedulerLink {
 public:
  static constexpr int64_t kJoinRetryMs = 2000;  // from one Join without an answer to the next
  static constexpr int64_t kJoinAgainMs = 200;   // from one Join to the next after a refusal
  static constexpr int64_t kAskAgainMs = 100;    // from one heartbeat to the next after AskSoon()

  explicit SchedulerLink(Incarnation incarnation) : incarnation_(incarnation) {}

  Incarnation incarnation() const { return incarnation_; }
  RunId run() const { return run_; }  // zero: none

  // The envelope of the next message, whoever gets it.
  Envelope Next(uint32_t plan_version, uint64_t reply_to = 0) {
    return Again(next_sequence_++, plan_version, reply_to);
  }
  // The envelope of a message that was sent under this sequence before.
  Envelope Again(uint64_t sequence, uint32_t plan_version, uint64_t reply_to = 0) const {
    return {run_, incarnation_, sequence, reply_to, plan_version};
  }
  uint64_t last_sequence() const { return next_sequence_ - 1; }  // 0: nothing was sent
  // Whether a message answers what an earlier life of this member asked.
  bool AnswersEarlierLife(const Envelope& envelope) const {
    return envelope.reply_to != 0 && envelope.reply_to < life_sequence_;
  }

  void Joined(RunId run) { run_ = run; }
  // The next life: another incarnation, in no run.
  void BeginNewLife();

  // The member waits for the scheduler from the first Join on.
  void JoinSent(int64_t now_ms);
  bool JoinDue(int64_t now_ms) const { return now_ms - join_sent_ms_ >= kJoinRetryMs; }
  bool MayJoinAgain(int64_t now_ms) const { return now_ms - join_sent_ms_ >= kJoinAgainMs; }
  // Makes the next Join due after kJoinAgainMs.
  void JoinSoon(int64_t now_ms) { join_sent_ms_ = now_ms - kJoinRetryMs + kJoinAgainMs; }

  void Heard(int64_t now_ms) { heard_ms_ = now_ms; }
  // When the scheduler was heard last; before that, when the member sent its first Join.
  int64_t heard_ms() const { return heard_ms_.value_or(0); }
  // How long a member waits for a silent scheduler. Null: it has not joined.
  static int64_t PatienceMs(const Config* config) {
    return config == nullptr ? kJoinPatienceMs
                             : int64_t{1000} * config->cluster.scheduler_silence_s;
  }

  bool HeartbeatDue(int64_t now_ms, int64_t interval_ms) const {
    return now_ms - heartbeat_ms_ >= (asks_ ? std::min(interval_ms, kAskAgainMs) : interval_ms);
  }
  void HeartbeatSent(int64_t now_ms) {
    heartbeat_ms_ = now_ms;
    asks_ = false;
  }
  // Asks the scheduler by an early heartbeat whether this member has the present plan, and is still
  // in the run: another member says that it is not so.
  void AskSoon() { asks_ = true; }

 private:
  RunId run_;
  Incarnation incarnation_;
  uint64_t next_sequence_ = 1;
  uint64_t life_sequence_ = 1;  // the first of this life
  int64_t join_sent_ms_ = 0;
  std::optional<int64_t> heard_ms_;
  int64_t heartbeat_ms_ = 0;
  bool asks_ = false;  // the next heartbeat is an early one
};

// How a member ends that the scheduler dismisses: well, or, if the run is not done, with what asks
// whoever started it to start it again (75 and 85).
Status DismissedBy(const Shutdown& shutdown);

}  // namespace dslide
