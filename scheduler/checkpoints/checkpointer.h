// The checkpoints of a run: when one is due, the one that is being written, and the newest complete
// one. Training goes on meanwhile.
//
// A checkpoint is a round: the core says what counts at its beginning, each server with slots
// writes its shard, and when all have answered and the core has no doubt the manifest is written. A
// round that a server cannot take part in now is given up and repeated a second later. A round that
// failed is repeated later. If the run has nothing else to do, it ends after failures for ten
// minutes when its last epoch is done, or for twenty seconds when it was asked to stop.
//
// Pure. A run ends with the error that a function returns; the core ends it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/checkpoint/manifest.h"
#include "common/wire/messages.h"
#include "scheduler/base/counted_work.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/checkpoints/checkpoint_round.h"
#include "scheduler/members/roster.h"

namespace dslide {

class Checkpointer {
 public:
  // What a round begins with.
  struct Contents {
    CountedWork counted;
    uint64_t committed = 0;  // steps of the run that count, in synchronous training
    bool stops = false;      // the run ends when the checkpoint is written
    uint64_t seen = 0;       // batches that the drift alarm has seen
    int64_t now_ms = 0;
  };

  explicit Checkpointer(const RunInputs& inputs);

  // Wants a checkpoint if checkpoint.interval_s has passed since the last one.
  void WantAfterInterval(int64_t now_ms);
  // Wants one soon.
  void Want() { wanted_ = true; }
  // Wants one at once, also after a failure: whoever asks may have mended what went wrong.
  void WantAtOnce(int64_t now_ms);
  // WantAtOnce() for a run that was asked to stop. Failures then end the run early, because service
  // managers kill a process that stops slowly.
  void WantToStop(int64_t now_ms);
  // A member wants one. AnswerWaiters() sends it the outcome.
  void WantFor(Incarnation member, uint64_t request, int64_t now_ms);
  // Whether a round that began at `since_ms` or later has ended, well or not; if not, wants one.
  // True without checkpoints at intervals, and while there is no room for one.
  bool TriedSince(int64_t since_ms);
  // The run trains from now on, in a new generation.
  void BeginInterval(int64_t now_ms) { last_ms_ = now_ms; }
  // Whether a round should begin. A run that stops always wants a checkpoint. `last`: the run has
  // nothing to do but this one, which is written whatever room there is.
  bool Due(bool stopping, int64_t now_ms, bool last = false) const;
  // With checkpoint.quota_mb a round begins once the shell has found room for it. `kept`: names of
  // the complete checkpoints that are there, oldest first.
  bool WantsRoom(int64_t now_ms) const;
  void SetRoom(bool fits, std::vector<std::string> kept, int64_t now_ms);
  // A hook reads this checkpoint, which stays until the next call. "": no hook reads any.
  void Hold(const std::string& name) { read_ = name; }
  // The names of the checkpoints that stay whatever their age.
  std::vector<std::string> held() const;

  // Nothing counts that the newest checkpoint lacks. Its name would be the same as that of a new
  // one: never write over it.
  bool IsSaved(uint64_t batches) const { return saved_batches() == batches; }

  // Asks the plan's servers with slots for their shards. REQUIRES no round, and all servers in the
  // roster. What counts is taken now: a late report, or a step that is complete when a server is
  // asked again, must not be claimed.
  void Begin(const RunContext& run, const Plan& plan, const Roster& roster, Contents contents,
             Outbox* out);
  // A server of the generation answers. Call it before OnDone(), also for answers to rounds under
  // an earlier plan of the generation.
  void OnServerFree(Incarnation server, const CheckpointDone& done);
  // A server of the plan answers. Completes the round, gives it up, or fails.
  // `nothing_else`: the run has only this checkpoint to do.
  Status OnDone(const Member& server, const CheckpointDone& done, bool nothing_else, int64_t now_ms,
                Outbox* out, const Roster& roster);
  // All servers have answered; the manifest is not on its way yet.
  bool AwaitsManifest() const;
  // What the drift alarm had seen when the round began, and when that was. REQUIRES round().
  uint64_t seen() const { return generation_.round->seen; }
  int64_t began_ms() const { return generation_.round->began_ms; }
  // Has the manifest written. REQUIRES AwaitsManifest().
  void WriteManifest(Outbox* out);
  // The manifest was written, or could not be. REQUIRES round().
  Status OnManifest(const Status& status, bool nothing_else, int64_t now_ms, Outbox* out,
                    const Roster& roster);
  // Nothing is wrong; another round begins soon. Without a round: nothing.
  void GiveUp(int64_t now_ms);
  // Another generation of plans: what servers were asked for does not matter any more.
  void BeginGeneration() { generation_ = Generation(); }
  // A broken connection may have swallowed the request.
  void SendAgain(const Member& server, Outbox* out) const;

  // The newest checkpoint holds all that counts.
  void OnComplete(int64_t now_ms);
  // Tells those who asked for a checkpoint where the newest one lies, or why there is none.
  void AnswerWaiters(const std::string& error, const Roster& roster, Outbox* out);

  bool round() const { return generation_.round.has_value(); }
  // Of the checkpoint in the making; 0: there is none.
  uint64_t preprocessor() const {
    return generation_.round ? generation_.round->manifest.preprocessor : 0;
  }
  // A server may be writing: in a round, or in one that was given up.
  bool Writing(const Roster& roster) const;
  bool has_waiters() const { return !waiters_.empty(); }
  // The last complete round was to be the run's last.
  bool last_round_stops() const { return last_round_stops_; }
  // The newest complete checkpoint and its directory; empty: none.
  const std::optional<Manifest>& newest() const { return newest_; }
  const std::string& newest_directory() const { return newest_directory_; }
  // Batches that it holds.
  std::optional<uint64_t> saved_batches() const;
  // What the run goes back to: the newest checkpoint, or the beginning.
  CountedWork Restore() const;

  void CheckInvariants() const;

 private:
  struct Round {
    CheckpointRound answers;
    Manifest manifest;  // without shards until all have answered
    CheckpointRequest request;
    bool stops = false;
    uint64_t seen = 0;
    int64_t began_ms = 0;
    bool writes = false;  // the manifest
  };
  struct Generation {
    std::optional<Round> round;
    // Servers that were asked for a checkpoint, and its name: they may be writing it, also when the
    // round was given up.
    std::set<std::pair<Incarnation, std::string>> writing;
  };
  CheckpointRequest RequestFor(const Manifest& manifest, uint64_t committed) const;
  Status Fail(const Error& error, bool nothing_else, int64_t now_ms, Outbox* out,
              const Roster& roster);

  std::string directory_;  // of all checkpoints
  CheckpointConfig config_;
  Generation generation_;
  std::optional<Manifest> newest_;
  std::string newest_directory_;
  std::vector<std::string> complete_;  // by name, oldest first
  std::string read_;                   // by a hook; "": none
  bool wanted_ = false;
  bool has_room_ = false;      // for the next round
  int64_t room_asked_ms_ = 0;  // when there was none; 0: not asked yet
  int64_t not_before_ms_ = 0;
  int64_t last_ms_ = 0;
  int64_t tried_ms_ = std::numeric_limits<int64_t>::min();  // when the last round that ended began
  int64_t failing_since_ms_ = 0;  // with nothing else to do; 0: the last one has not failed
  std::optional<int64_t> stops_since_ms_;
  bool last_round_stops_ = false;
  std::vector<std::pair<Incarnation, uint64_t>> waiters_;  // and the sequences of their requests
};

}  // namespace dslide
