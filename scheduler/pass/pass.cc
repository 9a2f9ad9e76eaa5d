#include "scheduler/pass/pass.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/run/batch_number.h"
#include "common/run/lease_batch.h"
#include "common/run/lease_proofs.h"
#include "common/run/step.h"
#include "scheduler/base/events.h"

namespace dslide {
namespace {

constexpr int64_t kMostAuditPatienceMs = 10000;
constexpr int64_t kLeastAuditPatienceMs = 1000;
constexpr int64_t kPatientBatches = 4;  // of an evaluation: times what a batch takes

}  // namespace

void Pass::Begin(const RunContext& run, Outbox* out, bool measures) {
  const TrainConfig& train = run.config.train;
  begun_ = true;
  training_complete_ = counted_.epoch >= train.epochs;
  if (training_complete_ || run.is_stream() || measures) return;
  BeginEpoch(run);
  if (counted_.batches > 0) {
    out->Notice({event::kRunContinued,
                 fmt::format("going on at epoch {}, {} of {} batches done", counted_.epoch + 1,
                             book_->done(), book_->batches()),
                 {{"epoch", counted_.epoch + 1}, {"batches", book_->done()}}});
  }
  if (steps_) {
    out->Notice({event::kSynchronous,
                 fmt::format("synchronous training: steps of {} samples, staleness {}",
                             train.target_batch, train.staleness),
                 {{"step_samples", train.target_batch}, {"staleness", train.staleness}}});
  }
}

void Pass::BeginEpoch(const RunContext& run) {
  const TrainConfig& train = run.config.train;
  order_ = DataOrder::Epoch(*run.train, run.config.common.seed, counted_.epoch, train.batch,
                            run.held_out);
  BeginBook(run);
  leased_end_ = 0;
  lease_end_.reset();
  before_batches_ = counted_.batches - counted_.done.size();
  before_samples_ = counted_.samples;
  for (const DoneBatch& done : counted_.done) {
    before_samples_ -= SamplesOf({counted_.epoch, done.unit, done.index}, train, run.PassSamples());
  }
  if (HasSteps(run)) {
    told_batches_ = 0;
    BeginSteps(run);
  }
  for (const DoneBatch& done : counted_.done) {
    book_->Restore(done.unit, done.index);
    const uint64_t number = NumberInPass(done.unit, done.index, train.unit_batches);
    leased_end_ = std::max(leased_end_, number + 1);
    if (steps_) steps_->Done(number);
  }
  counted_.done.clear();
}

void Pass::EndBook() {
  if (book_) next_lease_ = book_->next_lease();
  book_.reset();
}

void Pass::BeginBook(const RunContext& run) {
  EndBook();
  book_.emplace(order_->batches(), run.config.train.unit_batches, next_lease_);
}

void Pass::BeginSteps(const RunContext& run) {
  const TrainConfig& train = run.config.train;
  BeginAudits(run, train.audit, kMostAuditPatienceMs);
  steps_.emplace(order_->batches(), BatchesPerStep(train),
                 counted_.epoch * StepsPerEpoch(train, run.EpochSamples()),
                 static_cast<uint64_t>(train.staleness));
}

void Pass::BeginAudits(const RunContext& run, float share, int64_t patience_ms) {
  patience_ms = std::min<int64_t>(run.config.cluster.lease_timeout_ms, patience_ms);
  audits_.emplace(Audits::Rules{share, run.trust_secret, patience_ms, run.keyed});
}

CountedWork Pass::TakeStepsBack(const RunContext& run, uint32_t version) {
  DSLIDE_CHECK(in_steps());
  CountedWork work = WorkToSave(run);
  counted_.batches = work.batches;
  counted_.samples = work.samples;
  book_->Reopen(told_batches_);
  BeginSteps(run);
  for (uint64_t n = 0; n < told_batches_; ++n) steps_->Done(n);
  taken_back_before_ = version;
  return work;
}

void Pass::BeginEvaluation(const RunContext& run, EvaluationSet set,
                           const InversePropensities& propensities, int64_t batch_ms,
                           Evaluation::Adjustment adjustment) {
  const TrainConfig& train = run.config.train;
  evaluation_.emplace(set, propensities, std::move(adjustment));
  if (set == EvaluationSet::kHeldOut) {
    order_ = run.dev == nullptr ? DataOrder::OfSamples(*run.train, run.held_out, train.batch)
                                : DataOrder::Evaluation(*run.dev, 0, 0, train.batch);
  } else {
    order_ = DataOrder::Evaluation(*run.test, run.config.common.seed,
                                   set == EvaluationSet::kTest ? 0 : train.evaluate_samples,
                                   train.batch);
  }
  BeginBook(run);
  leased_end_ = 0;
  evaluation_patience_ms_ =
      std::clamp(kPatientBatches * batch_ms, kLeastAuditPatienceMs, kMostAuditPatienceMs);
  if (run.keyed) BeginAudits(run, Evaluation::kShare, evaluation_patience_ms_);
}

bool Pass::EvaluateAgain(const RunContext& run) {
  if (!evaluation_->BeginAgain()) return false;
  BeginBook(run);
  leased_end_ = 0;
  BeginAudits(run, Evaluation::kShare, evaluation_patience_ms_);
  return true;
}

// Servers of another plan may compute with other kernels, which round otherwise: their answers are
// not compared.
void Pass::OnPlanSwitch() {
  if (evaluation_ && audits_) audits_->GiveUp();
}

void Pass::EndEpoch(const RunContext& run, Outbox* out) {
  DSLIDE_CHECK(complete() && !evaluating());
  Stop();
  counted_.epoch++;
  told_batches_ = 0;
  training_complete_ = counted_.epoch >= run.config.train.epochs;
  out->Record(LedgerEpochDone{counted_.epoch});
  out->ShowEpoch(counted_.epoch);
}

EvaluationResult Pass::EndEvaluation(std::vector<EvaluatedSample>* examples) {
  DSLIDE_CHECK(complete() && evaluating());
  EvaluationResult result{counted_.epoch, evaluation_->set(), evaluation_->Result()};
  if (result.set == EvaluationSet::kHeldOut) {
    result.ndcg = evaluation_->TakeNdcg();
    result.ranked = evaluation_->TakeSamples();
  }
  *examples = evaluation_->TakeExamples();
  Stop();
  return result;
}

void Pass::Stop() {
  EndBook();
  audits_.reset();
  steps_.reset();
  evaluation_.reset();
}

std::optional<LeaseGrant> Pass::Lease(const RunContext& run, const Applicant& applicant,
                                      int64_t now_ms) {
  if (!book_) return std::nullopt;
  const auto lease = NextLease(run, applicant, now_ms);
  if (!lease) return std::nullopt;
  const TrainConfig& train = run.config.train;
  leased_end_ = std::max(leased_end_,
                         NumberInPass(lease->unit, lease->batches.back(), train.unit_batches) + 1);
  LeaseGrant grant;
  grant.lease = lease->id;
  grant.kind = evaluating() ? LeaseKind::kEvaluate : LeaseKind::kTrain;
  grant.epoch = counted_.epoch;
  grant.unit = lease->unit;
  grant.top_k = evaluating() ? evaluation_->top_k() : 0;
  const bool by_numbers = applicant.has_data && !evaluating();
  for (const uint32_t index : lease->batches) {
    const uint64_t number = NumberInPass(lease->unit, index, train.unit_batches);
    grant.batches.push_back(by_numbers ? BatchByNumbers(*order_, number, index)
                                       : BatchWithSamples(*order_, number, index));
    grant.batches.back().ticket = TicketOf(run.lease_keys.tickets, applicant.worker, grant.kind,
                                           {grant.epoch, grant.unit, index});
  }
  return grant;
}

std::optional<dslide::Lease> Pass::NextLease(const RunContext& run, const Applicant& applicant,
                                             int64_t now_ms) {
  if (unconfirmed() > 0) {
    if (const auto again = audits_->Next(applicant.worker, now_ms)) {
      return book_->Again(again->unit, again->index);
    }
  }
  LeaseLimits limits = LimitsFor(run, applicant);
  if (auto lease = book_->Grant(applicant.worker, now_ms, limits)) return lease;
  if (steps_) limits.end = std::min(limits.end, steps_->OpenBatches());
  return book_->LeaseBackup(applicant.worker, now_ms, applicant.speed, limits);
}

// Of a step that is not open yet nobody gets more than an equal share.
LeaseLimits Pass::LimitsFor(const RunContext& run, const Applicant& applicant) const {
  LeaseLimits limits;
  limits.batches = applicant.batches;
  if (!steps_) return limits;
  limits.open = steps_->OpenBatches();
  limits.share = std::max<uint64_t>(
      1, BatchesPerStep(run.config.train) / std::max<size_t>(1, applicant.workers));
  limits.end = std::min(steps_->LeasableBatches(), lease_end_.value_or(book_->batches()));
  return limits;
}

Pass::Supply Pass::SupplyNow(const RunContext& run) const {
  if (!book_) return {};
  const LeaseLimits limits = LimitsFor(run, {});
  return {counted_.epoch, evaluating(), book_->freed(), limits.open, limits.end};
}

size_t Pass::ExpireLeases(const RunContext& run, bool all_wait, int64_t now_ms) {
  if (!book_) return 0;
  if (all_wait) {
    book_->RenewFrom(0, now_ms);
    if (audits_) audits_->Renew(now_ms);
  } else if (steps_) {
    book_->RenewFrom(BatchesServersTake(run.config.train), now_ms);
  }
  return book_->Expire(now_ms, run.config.cluster.lease_timeout_ms);
}

std::vector<OpenLease> Pass::OpenLeases() const {
  return book_ ? book_->OpenLeases() : std::vector<OpenLease>();
}

size_t Pass::Return(Incarnation worker) {
  if (audits_) audits_->Leave(worker);
  return book_ ? book_->Return(worker) : 0;
}

bool Pass::CountTrained(const RunContext& run, const BatchDone& done, int64_t now_ms,
                        Incarnation worker) {
  if (done.samples != SamplesOf(done.batch, run.config.train, run.PassSamples())) return false;
  const std::vector<Incarnation> holders = book_->HoldersOf(done.batch.unit, done.batch.index);
  if (!book_->Done(done.lease, done.batch.unit, done.batch.index, now_ms)) return false;
  counted_.batches++;
  counted_.samples += done.samples;
  if (!steps_) return true;
  const uint64_t number =
      NumberInPass(done.batch.unit, done.batch.index, run.config.train.unit_batches);
  if (!audits_->Begin(done.batch, number, worker, holders, now_ms)) steps_->Done(number);
  return true;
}

double Pass::WeightOf(const RunContext& run, const BatchId& batch) const {
  const uint64_t number = NumberInPass(batch.unit, batch.index, run.config.train.unit_batches);
  if (!book_ || number >= book_->batches()) return 0;
  const BatchRange range = order_->Batch(number);
  if (!order_->weighted()) return range.samples;
  double weight = 0;
  for (uint64_t at = range.first; at < range.first + range.samples; ++at) {
    weight += double{order_->Sample(at).weight};
  }
  return weight;
}

void Pass::Settle(Audits::Outcome* outcome) {
  // An evaluation could begin again for ever because a worker does not ask for work.
  if (evaluation_ && (outcome->skipped || outcome->undecided)) outcome->take_back = false;
  if (steps_ && !outcome->take_back) steps_->Done(outcome->number);
}

// Judged before it counts: a bad report must leave the batch to be leased again.
bool Pass::CountEvaluated(const RunContext& run, const BatchDone& done, uint32_t plan_version,
                          int64_t now_ms, Incarnation worker) {
  const TrainConfig& train = run.config.train;
  const uint64_t number = NumberInPass(done.batch.unit, done.batch.index, train.unit_batches);
  const uint64_t first = number * train.batch;
  const TopKReply& p = done.predictions;
  const uint64_t samples = p.offsets.size() - 1;
  const bool labels_known = std::all_of(p.ids.begin(), p.ids.end(),
                                        [&](uint32_t id) { return id < run.config.model.labels; });
  if (number >= book_->batches() || !labels_known || !evaluation_->IsWellFormed(p) ||
      samples != std::min<uint64_t>(train.batch, order_->samples() - first)) {
    if (audits_) audits_->Fail(worker, done.batch);
    return false;
  }
  // A liar could keep its reports back until the plan has changed, and nobody compares them.
  if (audits_ && !FollowsPlan(plan_version)) return false;
  const std::vector<Incarnation> holders = book_->HoldersOf(done.batch.unit, done.batch.index);
  const bool counts = book_->Done(done.lease, done.batch.unit, done.batch.index, now_ms);
  if (audits_) AuditEvaluated(run, done, number, counts, holders, now_ms, worker);
  if (counts) evaluation_->Add(p, *order_, first);
  return counts;
}

// Whether predictions by this slot plan are compared with those that come; those by an earlier one
// are not.
bool Pass::FollowsPlan(uint32_t version) {
  bool changed = false;
  const bool follows = evaluation_->FollowsPlan(version, &changed);
  if (changed) audits_->GiveUp();
  return follows;
}

void Pass::AuditEvaluated(const RunContext& run, const BatchDone& done, uint64_t number,
                          bool counts, const std::vector<Incarnation>& holders, int64_t now_ms,
                          Incarnation worker) {
  if (counts) {
    audits_->SetShare(evaluation_->NextShare(worker));
    audits_->Begin(done.batch, number, worker, holders, now_ms);
  }
  audits_->Take(Evaluation::kWitness, Evaluation::ReportOf(done.batch, worker, done.predictions,
                                                           counts, run.trust_secret));
}

void Pass::Commit(const RunContext& run, const Roster& roster, Outbox* out) {
  if (!HasSteps(run)) return;
  const TrainConfig& train = run.config.train;
  const uint64_t complete =
      steps_ ? steps_->committed() : counted_.epoch * StepsPerEpoch(train, run.EpochSamples());
  if (told_ == complete) return;
  told_ = complete;
  if (steps_) told_batches_ = steps_->CommittedBatches();
  out->SyncLedger();
  out->SendToSeated(roster, CommitSteps{complete});
}

void Pass::TellCommitted(const Member& server, Outbox* out) const {
  if (told_) out->Send(server, CommitSteps{*told_});
}

bool Pass::AllCommitted(const std::vector<const Member*>& servers) const {
  return std::ranges::all_of(servers,
                             [&](const Member* server) { return server->committed == told_; });
}

bool Pass::BetweenSteps() const {
  return !steps_ || (book_->done() == told_batches_ && leased_end_ <= told_batches_);
}

void Pass::HoldSteps(const RunContext& run) {
  if (!steps_ || lease_end_) return;
  const uint64_t step = BatchesPerStep(run.config.train);
  lease_end_ = (std::max(leased_end_, told_batches_) + step - 1) / step * step;
}

// Servers take batches of the epoch below this: the steps before them are committed, and the
// servers were told.
uint64_t Pass::BatchesServersTake(const TrainConfig& train) const {
  return told_batches_ + (1 + static_cast<uint64_t>(train.staleness)) * BatchesPerStep(train);
}

uint64_t Pass::BatchesToSave() const {
  return steps_ ? before_batches_ + told_batches_ : counted_.batches;
}

CountedWork Pass::WorkToSave(const RunContext& run) const {
  CountedWork work{counted_.epoch, BatchesToSave(), counted_.samples, {}};
  if (evaluating() || !book_) return work;
  const TrainConfig& train = run.config.train;
  for (uint64_t n = 0; n < book_->batches(); ++n) {
    const UnitPlace place = PlaceInUnit(n, train.unit_batches);
    const DoneBatch batch{place.unit, place.index};
    if (steps_ ? n < told_batches_ : book_->IsDone(batch.unit, batch.index)) {
      work.done.push_back(batch);
    }
  }
  if (steps_) {
    const uint64_t samples = run.PassSamples();
    work.samples = before_samples_ + std::min(samples, told_batches_ * train.batch);
  }
  return work;
}

void Pass::CheckInvariants(const RunContext& run) const {
  DSLIDE_CHECK(!book_ || (begun_ && order_));
  // The samples of a stream's epoch in progress may have to come again.
  const bool waits = run.is_stream() && !book_;
  DSLIDE_CHECK(!begun_ || counted_.done.empty() || training_complete_ || waits);
  DSLIDE_CHECK(!evaluation_ || (book_ && !steps_));
  DSLIDE_CHECK(!steps_ || (book_ && HasSteps(run)));
  DSLIDE_CHECK(!book_ || book_->done() <= book_->batches());
  DSLIDE_CHECK(!book_ || leased_end_ <= book_->batches());
  DSLIDE_CHECK(!told_ || HasSteps(run));
  DSLIDE_CHECK(!steps_ || told_ <= steps_->committed());
  DSLIDE_CHECK(!steps_ || told_batches_ <= book_->done());
  DSLIDE_CHECK(!lease_end_ || HasSteps(run));
}

}  // namespace dslide
