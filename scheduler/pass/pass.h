// The passes of a generation of plans: the epoch or evaluation in progress, what counts in it, and
// which steps of synchronous training were committed.
//
// A pass begins where the generation's checkpoint ends. Its batches are leased, and a batch counts
// with its first report. After an epoch there is a moment without a pass: the core begins an
// evaluation, the next epoch, or ends the run.
//
// Synchronous training (train.staleness >= 0): servers apply the batches of a step together, when
// Commit() says that the step counts. Before a plan switch no further step begins
// (HoldSteps), until all batches that were leased have counted.
//
// Pure; used by the scheduler's thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/data/data_order.h"
#include "common/wire/messages.h"
#include "scheduler/base/counted_work.h"
#include "scheduler/base/outbox.h"
#include "scheduler/base/run_inputs.h"
#include "scheduler/leases/lease_book.h"
#include "scheduler/members/roster.h"
#include "scheduler/pass/audits.h"
#include "scheduler/pass/evaluation.h"
#include "scheduler/pass/pass_stage.h"
#include "scheduler/pass/step_book.h"

namespace dslide {

class Pass {
 public:
  // A worker that may have a lease.
  struct Applicant {
    Incarnation worker;
    bool has_data = false;  // the worker has the training file
    uint32_t batches = 1;   // of its lease
    size_t workers = 1;     // of the run
    LeaseBook::Speed speed;
  };

  // What there is to lease: while it stays, only time and reports make more of it for anybody.
  struct Supply {
    uint32_t epoch = 0;
    bool evaluating = false;
    uint64_t freed = 0;  // LeaseBook::freed()
    uint64_t open = 0;   // LeaseLimits::open
    uint64_t end = 0;    // LeaseLimits::end; 0: there is no pass
    bool operator==(const Supply&) const = default;
  };

  // Goes on from what counts. Begin() begins the first pass.
  explicit Pass(CountedWork counted) : counted_(std::move(counted)) {}

  // Begins the epoch in progress, if the last one is not done yet. `measures`: an evaluation comes
  // before it.
  void Begin(const RunContext& run, Outbox* out, bool measures = false);
  void BeginEpoch(const RunContext& run);
  // `batch_ms`: what a batch takes; nobody is waited for much longer. REQUIRES that the set has
  // samples.
  void BeginEvaluation(const RunContext& run, EvaluationSet set,
                       const InversePropensities& propensities, int64_t batch_ms = 0,
                       Evaluation::Adjustment adjustment = {});
  // REQUIRES complete(), and that an epoch is in progress.
  void EndEpoch(const RunContext& run, Outbox* out);
  // REQUIRES complete(), and that an evaluation is in progress. *examples: its last samples.
  EvaluationResult EndEvaluation(std::vector<EvaluatedSample>* examples);
  // Evaluates all over again: a worker has lied. False: it has begun again too often, and goes on.
  // REQUIRES evaluating().
  [[nodiscard]] bool EvaluateAgain(const RunContext& run);
  // Another slot plan is about to be in force.
  void OnPlanSwitch();
  // A stream has ended: no epoch comes after those that are done. REQUIRES between_passes().
  void EndTraining() { training_complete_ = true; }
  // The run is over.
  void Stop();

  PassStage stage() const { return static_cast<PassStage>(stage_.index()); }
  bool begun() const { return stage() != PassStage::kNotBegun; }
  bool evaluating() const { return stage() == PassStage::kEvaluation; }
  bool between_passes() const { return stage() == PassStage::kBetween; }
  // The last epoch is done; its checkpoint may not be.
  bool training_complete() const { return training_complete_; }
  // All batches of the pass count, and none waits for other workers to confirm it.
  bool complete() const { return batches() && batches()->book.complete() && unconfirmed() == 0; }
  // What counts. `done` is empty once the epoch has begun.
  const CountedWork& counted() const { return counted_; }
  // Batches of the epoch in progress that count.
  uint64_t done() const { return epoch() ? epoch()->book.done() : 0; }
  // Batches of the pass that are not done.
  uint64_t batches_left() const {
    return batches() ? batches()->book.batches() - batches()->book.done() : 0;
  }

  // Leases the next batches; once all are leased, copies of what others are slow with.
  std::optional<LeaseGrant> Lease(const RunContext& run, const Applicant& applicant,
                                  int64_t now_ms);
  Supply SupplyNow(const RunContext& run) const;
  // Takes all leases of a worker back; returns how many it had.
  size_t Return(Incarnation worker);
  // Takes one batch back from a worker, to lease it again.
  void GiveBack(Incarnation worker, const BatchId& batch) {
    if (batches()) (void)batches()->book.GiveBack(worker, batch.unit, batch.index);
  }
  // Expires leases without progress; returns how many. Leases whose batches servers keep waiting
  // are renewed before: those of steps that are not open, or, if `all_wait`, all.
  size_t ExpireLeases(const RunContext& run, bool all_wait, int64_t now_ms);
  std::vector<OpenLease> OpenLeases() const;

  // A worker reports a batch of the epoch or evaluation in progress. False: it does not count, or
  // did before. `worker`: whose report it is.
  bool CountTrained(const RunContext& run, const BatchDone& done, int64_t now_ms,
                    Incarnation worker = {});
  // `plan_version`: of the slot plan that the worker evaluated by.
  bool CountEvaluated(const RunContext& run, const BatchDone& done, uint32_t plan_version,
                      int64_t now_ms, Incarnation worker = {});
  // Of the batch's samples together; 0: there is no such batch.
  double WeightOf(const RunContext& run, const BatchId& batch) const;
  // Evaluations of one epoch have the same batches, so that only the lease tells them apart.
  bool IsOfThisPass(const BatchDone& done) const {
    return batches() && done.batch.epoch == counted_.epoch &&
           (!evaluating() || done.lease >= batches()->book.first_lease());
  }

  // The audits of the pass; null without audits. In an evaluation the pass is the witness itself.
  Audits* audits() { return batches() && batches()->audits ? &*batches()->audits : nullptr; }
  // An audit has ended. The batch counts for its step now, or is to be taken back: then REQUIRES
  // that the caller begins a new generation, or evaluates again.
  void Settle(Audits::Outcome* outcome);
  // Batches that count and are audited still.
  size_t unconfirmed() const {
    return batches() && batches()->audits ? batches()->audits->open() : 0;
  }

  // Synchronous training: tells the servers which steps of the run count, if that has changed.
  void Commit(const RunContext& run, const Roster& roster, Outbox* out);
  // Tells a server that may not know them.
  void TellCommitted(const Member& server, Outbox* out) const;
  // Tells a server that has not applied them.
  void CommitAgain(const Member& server, Outbox* out) const {
    if (server.committed != told_) TellCommitted(server, out);
  }
  // Steps of the run that the newest CommitSteps names; none: none was sent.
  std::optional<uint64_t> told() const { return told_; }
  // Whether these servers have applied the steps of the newest CommitSteps.
  bool AllCommitted(const std::vector<const Member*>& servers) const;
  // Whether epochs have steps: then servers wait for the word that their batches count.
  static bool HasSteps(const RunContext& run) { return IsSynchronous(run.config.train); }
  // Batches wait for the other batches of their step.
  bool in_steps() const { return epoch() && epoch()->steps; }
  // Servers hold nothing of steps that do not count, and nothing is on its way to them.
  bool BetweenSteps() const;
  // What counts of steps that are not committed does not count any more, nor what is reported of
  // plans before `version`. REQUIRES in_steps(), and that servers drop these steps.
  CountedWork TakeStepsBack(const RunContext& run, uint32_t version);
  bool IsTakenBack(uint32_t plan_version) const { return plan_version < taken_back_before_; }
  // No step begins that is not in progress already.
  void HoldSteps(const RunContext& run);
  void ReleaseSteps() {
    if (epoch()) epoch()->lease_end.reset();
  }

  // Batches of the run that a checkpoint of now holds: in synchronous training those of whole
  // steps.
  uint64_t BatchesToSave() const;
  CountedWork WorkToSave(const RunContext& run) const;

  void CheckInvariants(const RunContext& run) const;

 private:
  // In the order of PassStage.
  struct NotBegun {};
  struct Between {};
  // The batches of an epoch or an evaluation.
  struct Batches {
    DataOrder order;
    LeaseBook book;
    std::optional<Audits> audits;  // in synchronous training, and in evaluations of runs with keys
    uint64_t leased_end = 0;       // one past the highest batch leased
  };
  struct Epoch : Batches {
    uint64_t before_batches = 0;  // that counted before it
    uint64_t before_samples = 0;
    std::optional<StepBook> steps = {};      // in synchronous training
    uint64_t told_batches = 0;               // in steps that the newest CommitSteps names
    std::optional<uint64_t> lease_end = {};  // none is leased at or behind it
  };
  struct Evaluating : Batches {
    Evaluation evaluation;
    int64_t patience_ms = 0;  // of its audits
  };

  // Null: none is in progress.
  const Batches* batches() const;
  Batches* batches() { return const_cast<Batches*>(std::as_const(*this).batches()); }
  const Epoch* epoch() const { return std::get_if<Epoch>(&stage_); }
  Epoch* epoch() { return std::get_if<Epoch>(&stage_); }

  // Changes the stage by `event`. `stage`: the new stage's fields.
  template <typename Stage>
  Stage& Enter(PassEvent event, Stage stage);

  std::optional<dslide::Lease> NextLease(const RunContext& run, const Applicant& applicant,
                                         int64_t now_ms);
  LeaseLimits LimitsFor(const RunContext& run, const Applicant& applicant) const;
  Batches BatchesOf(const RunContext& run, DataOrder order);
  void BeginSteps(const RunContext& run);
  uint64_t BatchesServersTake(const TrainConfig& train) const;
  static Audits AuditsOf(const RunContext& run, float share, int64_t patience_ms);
  bool FollowsPlan(uint32_t version);
  void AuditEvaluated(const RunContext& run, const BatchDone& done, uint64_t number, bool counts,
                      const std::vector<Incarnation>& holders, int64_t now_ms, Incarnation worker);

  CountedWork counted_;
  bool training_complete_ = false;
  uint64_t next_lease_ = 1;  // for the next batches(): a later pass has higher numbers of leases
  std::variant<NotBegun, Between, Epoch, Evaluating> stage_;
  std::optional<uint64_t> told_;    // steps of the run
  uint32_t taken_back_before_ = 0;  // reports of plans before this one do not count
};

}  // namespace dslide
