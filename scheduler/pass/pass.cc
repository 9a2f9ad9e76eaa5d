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

const Pass::Batches* Pass::batches() const {
  if (const Epoch* found = epoch()) return found;
  return std::get_if<Evaluating>(&stage_);
}

template <typename Stage>
Stage& Pass::Enter(PassEvent event, Stage stage) {
  const PassStage next = Next(kPassTransitions, this->stage(), event);
  if (batches()) next_lease_ = batches()->book.next_lease();
  Stage& entered = stage_.emplace<Stage>(std::move(stage));
  DSLIDE_CHECK(this->stage() == next);
  return entered;
}

void Pass::Begin(const RunContext& run, Outbox* out, bool measures) {
  const TrainConfig& train = run.config.train;
  Enter(PassEvent::kServersReady, Between());
  training_complete_ = counted_.epoch >= train.epochs;
  if (training_complete_ || run.is_stream() || measures) return;
  BeginEpoch(run);
  if (counted_.batches > 0) {
    out->Notice({event::kRunContinued,
                 fmt::format("going on at epoch {}, {} of {} batches done", counted_.epoch + 1,
                             done(), batches()->book.batches()),
                 {{"epoch", counted_.epoch + 1}, {"batches", done()}}});
  }
  if (in_steps()) {
    out->Notice({event::kSynchronous,
                 fmt::format("synchronous training: steps of {} samples, staleness {}",
                             train.target_batch, train.staleness),
                 {{"step_samples", train.target_batch}, {"staleness", train.staleness}}});
  }
}

void Pass::BeginEpoch(const RunContext& run) {
  const TrainConfig& train = run.config.train;
  DataOrder order = DataOrder::Epoch(*run.train, run.config.common.seed, counted_.epoch,
                                     train.batch, run.held_out);
  Epoch& epoch = Enter(PassEvent::kEpochBegins, Epoch{BatchesOf(run, std::move(order))});
  epoch.before_batches = counted_.batches - counted_.done.size();
  epoch.before_samples = counted_.samples;
  for (const DoneBatch& done : counted_.done) {
    epoch.before_samples -=
        SamplesOf({counted_.epoch, done.unit, done.index}, train, run.PassSamples());
  }
  if (HasSteps(run)) BeginSteps(run);
  for (const DoneBatch& done : counted_.done) {
    epoch.book.Restore(done.unit, done.index);
    const uint64_t number = NumberInPass(done.unit, done.index, train.unit_batches);
    epoch.leased_end = std::max(epoch.leased_end, number + 1);
    if (epoch.steps) epoch.steps->Done(number);
  }
  counted_.done.clear();
}

Pass::Batches Pass::BatchesOf(const RunContext& run, DataOrder order) {
  const uint64_t first_lease = batches() ? batches()->book.next_lease() : next_lease_;
  LeaseBook book(order.batches(), run.config.train.unit_batches, first_lease);
  return {std::move(order), std::move(book), std::nullopt, 0};
}

void Pass::BeginSteps(const RunContext& run) {
  const TrainConfig& train = run.config.train;
  Epoch& epoch = *this->epoch();
  epoch.audits = AuditsOf(run, train.audit, kMostAuditPatienceMs);
  epoch.steps.emplace(epoch.order.batches(), BatchesPerStep(train),
                      counted_.epoch * StepsPerEpoch(train, run.EpochSamples()),
                      static_cast<uint64_t>(train.staleness));
}

Audits Pass::AuditsOf(const RunContext& run, float share, int64_t patience_ms) {
  patience_ms = std::min<int64_t>(run.config.cluster.lease_timeout_ms, patience_ms);
  return Audits(Audits::Rules{share, run.trust_secret, patience_ms, run.keyed});
}

CountedWork Pass::TakeStepsBack(const RunContext& run, uint32_t version) {
  DSLIDE_CHECK(in_steps());
  CountedWork work = WorkToSave(run);
  counted_.batches = work.batches;
  counted_.samples = work.samples;
  Epoch& epoch = *this->epoch();
  epoch.book.Reopen(epoch.told_batches);
  BeginSteps(run);
  for (uint64_t n = 0; n < epoch.told_batches; ++n) epoch.steps->Done(n);
  taken_back_before_ = version;
  return work;
}

void Pass::BeginEvaluation(const RunContext& run, EvaluationSet set,
                           const InversePropensities& propensities, int64_t batch_ms,
                           Evaluation::Adjustment adjustment) {
  const TrainConfig& train = run.config.train;
  const auto order = [&] {
    if (set != EvaluationSet::kHeldOut) {
      const uint32_t samples = set == EvaluationSet::kTest ? 0 : train.evaluate_samples;
      return DataOrder::Evaluation(*run.test, run.config.common.seed, samples, train.batch);
    }
    return run.dev == nullptr ? DataOrder::OfSamples(*run.train, run.held_out, train.batch)
                              : DataOrder::Evaluation(*run.dev, 0, 0, train.batch);
  };
  Evaluating& begun = Enter(PassEvent::kEvaluationBegins,
                            Evaluating{BatchesOf(run, order()),
                                       {set, propensities, std::move(adjustment)},
                                       std::clamp(kPatientBatches * batch_ms, kLeastAuditPatienceMs,
                                                  kMostAuditPatienceMs)});
  if (run.keyed) begun.audits = AuditsOf(run, Evaluation::kShare, begun.patience_ms);
}

bool Pass::EvaluateAgain(const RunContext& run) {
  auto& lied = std::get<Evaluating>(stage_);
  if (!lied.evaluation.BeginAgain()) return false;
  Evaluating again{BatchesOf(run, lied.order), std::move(lied.evaluation), lied.patience_ms};
  again.audits = AuditsOf(run, Evaluation::kShare, lied.patience_ms);
  Enter(PassEvent::kLieFound, std::move(again));
  return true;
}

// Servers of another plan may compute with other kernels, which round otherwise: their answers are
// not compared.
void Pass::OnPlanSwitch() {
  if (evaluating() && audits()) audits()->GiveUp();
}

void Pass::EndEpoch(const RunContext& run, Outbox* out) {
  DSLIDE_CHECK(complete() && !evaluating());
  Enter(PassEvent::kAllCount, Between());
  counted_.epoch++;
  training_complete_ = counted_.epoch >= run.config.train.epochs;
  out->Record(LedgerEpochDone{counted_.epoch});
  out->ShowEpoch(counted_.epoch);
}

EvaluationResult Pass::EndEvaluation(std::vector<EvaluatedSample>* examples) {
  DSLIDE_CHECK(complete() && evaluating());
  Evaluation& evaluation = std::get<Evaluating>(stage_).evaluation;
  EvaluationResult result{counted_.epoch, evaluation.set(), evaluation.Result()};
  if (result.set == EvaluationSet::kHeldOut) result.ndcg = evaluation.TakeNdcg();
  result.ranked = evaluation.TakeSamples();
  *examples = evaluation.TakeExamples();
  Enter(PassEvent::kAllCount, Between());
  return result;
}

void Pass::Stop() {
  if (batches()) Enter(PassEvent::kRunEnds, Between());
}

std::optional<LeaseGrant> Pass::Lease(const RunContext& run, const Applicant& applicant,
                                      int64_t now_ms) {
  Batches* const batches = this->batches();
  if (batches == nullptr) return std::nullopt;
  const auto lease = NextLease(run, applicant, now_ms);
  if (!lease) return std::nullopt;
  const TrainConfig& train = run.config.train;
  batches->leased_end =
      std::max(batches->leased_end,
               NumberInPass(lease->unit, lease->batches.back(), train.unit_batches) + 1);
  LeaseGrant grant;
  grant.lease = lease->id;
  grant.kind = evaluating() ? LeaseKind::kEvaluate : LeaseKind::kTrain;
  grant.epoch = counted_.epoch;
  grant.unit = lease->unit;
  grant.top_k = evaluating() ? std::get<Evaluating>(stage_).evaluation.top_k() : 0;
  const bool by_numbers = applicant.has_data && !evaluating();
  for (const uint32_t index : lease->batches) {
    const uint64_t number = NumberInPass(lease->unit, index, train.unit_batches);
    grant.batches.push_back(by_numbers ? BatchByNumbers(batches->order, number, index)
                                       : BatchWithSamples(batches->order, number, index));
    grant.batches.back().ticket = TicketOf(run.lease_keys.tickets, applicant.worker, grant.kind,
                                           {grant.epoch, grant.unit, index});
  }
  return grant;
}

std::optional<dslide::Lease> Pass::NextLease(const RunContext& run, const Applicant& applicant,
                                             int64_t now_ms) {
  LeaseBook& book = batches()->book;
  if (unconfirmed() > 0) {
    if (const auto again = audits()->Next(applicant.worker, now_ms)) {
      return book.Again(again->unit, again->index);
    }
  }
  LeaseLimits limits = LimitsFor(run, applicant);
  if (auto lease = book.Grant(applicant.worker, now_ms, limits)) return lease;
  if (in_steps()) limits.end = std::min(limits.end, epoch()->steps->OpenBatches());
  return book.LeaseBackup(applicant.worker, now_ms, applicant.speed, limits);
}

// Of a step that is not open yet nobody gets more than an equal share.
LeaseLimits Pass::LimitsFor(const RunContext& run, const Applicant& applicant) const {
  LeaseLimits limits;
  limits.batches = applicant.batches;
  if (!in_steps()) return limits;
  const StepBook& steps = *epoch()->steps;
  limits.open = steps.OpenBatches();
  limits.share = std::max<uint64_t>(
      1, BatchesPerStep(run.config.train) / std::max<size_t>(1, applicant.workers));
  limits.end =
      std::min(steps.LeasableBatches(), epoch()->lease_end.value_or(epoch()->book.batches()));
  return limits;
}

Pass::Supply Pass::SupplyNow(const RunContext& run) const {
  if (!batches()) return {};
  const LeaseLimits limits = LimitsFor(run, {});
  return {counted_.epoch, evaluating(), batches()->book.freed(), limits.open, limits.end};
}

size_t Pass::ExpireLeases(const RunContext& run, bool all_wait, int64_t now_ms) {
  if (!batches()) return 0;
  LeaseBook& book = batches()->book;
  if (all_wait) {
    book.RenewFrom(0, now_ms);
    if (audits()) audits()->Renew(now_ms);
  } else if (in_steps()) {
    book.RenewFrom(BatchesServersTake(run.config.train), now_ms);
  }
  return book.Expire(now_ms, run.config.cluster.lease_timeout_ms);
}

std::vector<OpenLease> Pass::OpenLeases() const {
  return batches() ? batches()->book.OpenLeases() : std::vector<OpenLease>();
}

size_t Pass::Return(Incarnation worker) {
  if (audits()) audits()->Leave(worker);
  return batches() ? batches()->book.Return(worker) : 0;
}

bool Pass::CountTrained(const RunContext& run, const BatchDone& done, int64_t now_ms,
                        Incarnation worker) {
  if (done.samples != SamplesOf(done.batch, run.config.train, run.PassSamples())) return false;
  Epoch& epoch = std::get<Epoch>(stage_);
  const std::vector<Incarnation> holders = epoch.book.HoldersOf(done.batch.unit, done.batch.index);
  if (!epoch.book.Done(done.lease, done.batch.unit, done.batch.index, now_ms)) return false;
  counted_.batches++;
  counted_.samples += done.samples;
  if (!epoch.steps) return true;
  const uint64_t number =
      NumberInPass(done.batch.unit, done.batch.index, run.config.train.unit_batches);
  if (!epoch.audits->Begin(done.batch, number, worker, holders, now_ms)) epoch.steps->Done(number);
  return true;
}

double Pass::WeightOf(const RunContext& run, const BatchId& batch) const {
  const uint64_t number = NumberInPass(batch.unit, batch.index, run.config.train.unit_batches);
  if (!batches() || number >= batches()->book.batches()) return 0;
  const DataOrder& order = batches()->order;
  const BatchRange range = order.Batch(number);
  if (!order.weighted()) return range.samples;
  double weight = 0;
  for (uint64_t at = range.first; at < range.first + range.samples; ++at) {
    weight += double{order.Sample(at).weight};
  }
  return weight;
}

void Pass::Settle(Audits::Outcome* outcome) {
  // An evaluation could begin again for ever because a worker does not ask for work.
  if (evaluating() && (outcome->skipped || outcome->undecided)) outcome->take_back = false;
  if (in_steps() && !outcome->take_back) epoch()->steps->Done(outcome->number);
}

// Judged before it counts: a bad report must leave the batch to be leased again.
bool Pass::CountEvaluated(const RunContext& run, const BatchDone& done, uint32_t plan_version,
                          int64_t now_ms, Incarnation worker) {
  const TrainConfig& train = run.config.train;
  Evaluating& pass = std::get<Evaluating>(stage_);
  const uint64_t number = NumberInPass(done.batch.unit, done.batch.index, train.unit_batches);
  const uint64_t first = number * train.batch;
  const TopKReply& p = done.predictions;
  const uint64_t samples = p.offsets.size() - 1;
  const bool labels_known = std::all_of(p.ids.begin(), p.ids.end(),
                                        [&](uint32_t id) { return id < run.config.model.labels; });
  if (number >= pass.book.batches() || !labels_known || !pass.evaluation.IsWellFormed(p) ||
      samples != std::min<uint64_t>(train.batch, pass.order.samples() - first)) {
    if (pass.audits) pass.audits->Fail(worker, done.batch);
    return false;
  }
  // A liar could keep its reports back until the plan has changed, and nobody compares them.
  if (pass.audits && !FollowsPlan(plan_version)) return false;
  const std::vector<Incarnation> holders = pass.book.HoldersOf(done.batch.unit, done.batch.index);
  const bool counts = pass.book.Done(done.lease, done.batch.unit, done.batch.index, now_ms);
  if (pass.audits) AuditEvaluated(run, done, number, counts, holders, now_ms, worker);
  if (counts) pass.evaluation.Add(p, pass.order, first);
  return counts;
}

// Whether predictions by this slot plan are compared with those that come; those by an earlier one
// are not.
bool Pass::FollowsPlan(uint32_t version) {
  bool changed = false;
  const bool follows = std::get<Evaluating>(stage_).evaluation.FollowsPlan(version, &changed);
  if (changed) audits()->GiveUp();
  return follows;
}

void Pass::AuditEvaluated(const RunContext& run, const BatchDone& done, uint64_t number,
                          bool counts, const std::vector<Incarnation>& holders, int64_t now_ms,
                          Incarnation worker) {
  if (counts) {
    audits()->SetShare(std::get<Evaluating>(stage_).evaluation.NextShare(worker));
    audits()->Begin(done.batch, number, worker, holders, now_ms);
  }
  audits()->Take(Evaluation::kWitness, Evaluation::ReportOf(done.batch, worker, done.predictions,
                                                            counts, run.trust_secret));
}

void Pass::Commit(const RunContext& run, const Roster& roster, Outbox* out) {
  if (!HasSteps(run)) return;
  const TrainConfig& train = run.config.train;
  const uint64_t complete = in_steps() ? epoch()->steps->committed()
                                       : counted_.epoch * StepsPerEpoch(train, run.EpochSamples());
  if (told_ == complete) return;
  told_ = complete;
  if (in_steps()) epoch()->told_batches = epoch()->steps->CommittedBatches();
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
  return !in_steps() ||
         (done() == epoch()->told_batches && epoch()->leased_end <= epoch()->told_batches);
}

void Pass::HoldSteps(const RunContext& run) {
  if (!in_steps() || epoch()->lease_end) return;
  const uint64_t step = BatchesPerStep(run.config.train);
  const uint64_t begun = std::max(epoch()->leased_end, epoch()->told_batches);
  epoch()->lease_end = (begun + step - 1) / step * step;
}

// Servers take batches of the epoch below this: the steps before them are committed, and the
// servers were told.
uint64_t Pass::BatchesServersTake(const TrainConfig& train) const {
  return epoch()->told_batches +
         (1 + static_cast<uint64_t>(train.staleness)) * BatchesPerStep(train);
}

uint64_t Pass::BatchesToSave() const {
  return in_steps() ? epoch()->before_batches + epoch()->told_batches : counted_.batches;
}

CountedWork Pass::WorkToSave(const RunContext& run) const {
  CountedWork work{counted_.epoch, BatchesToSave(), counted_.samples, {}};
  if (!epoch()) return work;
  const Epoch& epoch = *this->epoch();
  const TrainConfig& train = run.config.train;
  for (uint64_t n = 0; n < epoch.book.batches(); ++n) {
    const UnitPlace place = PlaceInUnit(n, train.unit_batches);
    const DoneBatch batch{place.unit, place.index};
    if (epoch.steps ? n < epoch.told_batches : epoch.book.IsDone(batch.unit, batch.index)) {
      work.done.push_back(batch);
    }
  }
  if (epoch.steps) {
    const uint64_t samples = run.PassSamples();
    work.samples = epoch.before_samples + std::min(samples, epoch.told_batches * train.batch);
  }
  return work;
}

void Pass::CheckInvariants(const RunContext& run) const {
  // The samples of a stream's epoch in progress may have to come again.
  const bool waits = run.is_stream() && !batches();
  DSLIDE_CHECK(!begun() || counted_.done.empty() || training_complete_ || waits);
  DSLIDE_CHECK(!batches() || batches()->book.done() <= batches()->book.batches());
  DSLIDE_CHECK(!batches() || batches()->leased_end <= batches()->book.batches());
  DSLIDE_CHECK(!told_ || HasSteps(run));
  if (!epoch()) return;
  DSLIDE_CHECK(epoch()->steps.has_value() == HasSteps(run));
  DSLIDE_CHECK(!epoch()->steps || told_ <= epoch()->steps->committed());
  DSLIDE_CHECK(epoch()->told_batches <= done());
  DSLIDE_CHECK(!epoch()->lease_end || HasSteps(run));
}

}  // namespace dslide
