// The scheduler's decisions: roster, slot plan, leases, evaluations, checkpoints.
//
// A pure core: messages and time go in, messages and effects come out; it owns no socket, file or
// thread. A run goes through phases:
//
//   kGathering   until cluster.servers servers have joined
//   kLoading     the plan is out, servers initialise or restore their slots
//   kTraining    units of the epoch are leased. For a checkpoint it pauses: no lease is given until
//                those out have ended; in synchronous training, no step is committed
//   kEvaluating  units of the evaluation are leased
//   kFinished    Shutdown is out
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"
#include "common/config/config.h"
#include "common/data/data_order.h"
#include "common/data/dataset.h"
#include "common/data/metrics.h"
#include "common/net/messages.h"
#include "scheduler/checkpoint_round.h"
#include "scheduler/lease_book.h"
#include "scheduler/roster.h"
#include "scheduler/step_book.h"
#include "scheduler/training_stats.h"

namespace dslide {

// What a run is made of. The data sets must outlive the core.
struct RunInputs {
  Config config;  // resolved
  RunId run;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;     // null: no evaluation
  std::string checkpoint_directory;  // where checkpoints are put
  std::optional<Manifest> resume;    // continue from here
  std::string resume_directory;      // the checkpoint's own directory
};

// A figure that was reached; the shell writes it to metrics.jsonl and shows it.
struct EvaluationResult {
  uint32_t epoch = 0;  // epochs trained so far
  bool final = false;  // over all test samples
  RankingMetrics metrics;
};

class SchedulerCore {
 public:
  enum class Phase { kGathering, kLoading, kTraining, kEvaluating, kFinished };

  struct Outgoing {
    PeerId to;
    Body body;
    uint64_t reply_to = 0;
  };

  // What the shell has to do, in this order.
  struct Effects {
    std::vector<Outgoing> send;
    std::vector<std::string> notices;  // one line each, for the log and the terminal
    std::vector<EvaluationResult> evaluations;
    std::optional<Manifest> manifest;    // write it; then call ManifestWritten()
    std::optional<uint32_t> epoch_done;  // epochs trained so far
  };

  SchedulerCore(RunInputs inputs, int64_t now_ms);

  Effects Handle(const PeerId& from, const Message& message, int64_t now_ms);
  Effects Tick(int64_t now_ms);
  // The outcome of Effects::manifest.
  Effects ManifestWritten(const Status& status, int64_t now_ms);
  // The shell reports what a message of this core took on the wire.
  void NoteSent(const Body& body, size_t bytes);
  // SIGTERM or SIGINT: checkpoint what there is, then stop with exit code 85.
  Effects RequestStop(int64_t now_ms);

  Phase phase() const { return phase_; }
  // REQUIRES phase() == kFinished. Not ok: why the run ended early.
  const Status& outcome() const { return outcome_; }
  bool AllLeft() const;  // everybody has said goodbye after Shutdown

  const Config& config() const { return inputs_.config; }
  const std::string& checkpoint_directory() const { return inputs_.checkpoint_directory; }
  uint64_t train_samples() const { return inputs_.train->size(); }
  // Over the whole run, and since this scheduler started (or resumed).
  const TrainingStats& stats() const { return stats_; }
  TrainingStats stats_here() const { return stats_.Since(resumed_stats_); }
  // Bytes of training leases over the samples trained, both since this scheduler started.
  double LeaseBytesPerSample() const;
  size_t WorkerCount() const { return roster_.Count(Role::kWorker); }
  const Roster& roster() const { return roster_; }
  const std::optional<EvaluationResult>& last_evaluation() const { return last_evaluation_; }
  uint32_t epoch() const { return epoch_; }
  // Share of all epochs' batches that count, [0, 1].
  double Progress() const;
  // Milliseconds spent in kTraining, pauses for checkpoints included.
  int64_t TrainingMillis(int64_t now_ms) const;
  double training_cpu_seconds() const { return training_cpu_seconds_; }
  // "have 1 of 2 servers, waiting for 1 more" and the like.
  std::string WaitingLine() const;
  // The newest complete checkpoint of this life, empty if none yet.
  const std::string& last_checkpoint() const { return last_checkpoint_; }

 private:
  void OnJoin(const PeerId& from, const Message& message, const Join& join, int64_t now_ms);
  void OnReady(Member& member, const Ready& ready);
  void OnHeartbeat(Member& member, const Heartbeat& heartbeat, const Message& message);
  void OnLeave(const Member& member, int64_t now_ms);
  void DropWorker(const Member& worker, const std::string& why);
  void OnLeaseRequest(Member& member, const Message& message, const LeaseRequest& request,
                      int64_t now_ms);
  void OnBatchDone(Member& member, const BatchDone& done, int64_t now_ms);
  void OnCheckpointDone(Member& member, const CheckpointDone& done);
  void OnCheckpointNow(Member& member, const Message& message);
  void OnStepsCommitted(Member& member, const StepsCommitted& done, int64_t now_ms);

  void Reply(const Member& to, const Message& request, Body body);
  void Send(const Member& to, Body body);
  void Broadcast(Role role, const Body& body);
  void Notice(std::string line);

  void PublishPlan();
  void StartTraining(int64_t now_ms);
  void StartEpoch();
  struct Hungry {  // a worker that asked for a lease when there was none
    Incarnation worker;
    uint64_t sequence;  // of its request
    bool has_data;
  };
  bool GiveLease(const Member& member, const Hungry& hungry, int64_t now_ms);
  void FeedHungry(int64_t now_ms);
  std::optional<Lease> NextLease(const std::string& holder, int64_t now_ms);
  uint64_t OpenBatches() const;
  uint64_t CountedBatches() const;
  bool AllCommitted() const;
  void Commit();
  void Proceed(int64_t now_ms);
  void FinishPass(int64_t now_ms);
  void FinishEvaluation(int64_t now_ms);
  void StartEvaluation(bool final);
  void AfterEpoch(int64_t now_ms);
  void NextPass(int64_t now_ms);
  void Pause(int64_t now_ms);
  void MaybeCheckpoint(int64_t now_ms);
  void ResumeAfterCheckpoint(int64_t now_ms);
  void Finish(Status outcome, const std::string& reason, int64_t now_ms);
  void DropSilentMembers(int64_t now_ms);
  void SendAgain(int64_t now_ms);
  void AnswerCheckpointWaiters();
  CheckpointRequest CheckpointRequestOfRound() const;
  Manifest MakeManifest() const;  // without shards
  Effects Take();

  RunInputs inputs_;
  int64_t started_ms_;
  Phase phase_ = Phase::kGathering;
  Status outcome_;
  Roster roster_;
  Plan plan_;
  uint32_t epoch_ = 0;  // in progress, or epochs trained when evaluating
  std::optional<DataOrder> order_;
  std::optional<LeaseBook> book_;
  std::optional<StepBook> steps_;  // of book_, in synchronous training
  std::optional<uint64_t> told_;   // steps of the run that the servers were told count
  uint64_t counted_batches_ = 0;   // of this epoch, in those steps
  std::vector<Hungry> hungry_;     // in the order in which they asked
  std::optional<RankingEvaluator> evaluator_;
  bool final_evaluation_ = false;
  std::vector<float> inverse_propensities_;
  uint64_t train_checksum_;
  TrainingStats stats_;
  TrainingStats resumed_stats_;
  uint64_t lease_bytes_ = 0;  // of training leases
  std::optional<EvaluationResult> last_evaluation_;
  std::optional<CheckpointRound> round_;
  Manifest manifest_;                      // of round_
  std::optional<uint64_t> saved_batches_;  // what the last checkpoint holds
  int64_t sent_again_ms_ = 0;
  bool checkpoint_wanted_ = false;
  bool stop_wanted_ = false;
  bool training_complete_ = false;  // the last epoch is done; its checkpoint may not be
  std::vector<std::pair<Incarnation, uint64_t>> checkpoint_waiters_;
  int64_t last_checkpoint_ms_ = 0;
  std::string last_checkpoint_;
  int64_t training_since_ms_ = -1;
  int64_t training_ms_ = 0;
  double training_cpu_seconds_ = 0;
  Effects effects_;
};

}  // namespace dslide
