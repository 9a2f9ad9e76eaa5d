#include "server/core/audit_book.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/base/check.h"
#include "common/base/overloaded.h"
#include "server/executor/batches/batch_table.h"

namespace dslide {
namespace {

bool AreClose(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return std::abs(x - y) <= AuditBook::kLogTolerance; });
}

// In reports 0 means that there is none.
uint64_t NotZero(uint64_t digest) { return digest == 0 ? 1 : digest; }

}  // namespace

template <typename T>
void AuditBook::Add(const std::vector<T>& values, uint64_t* digest) const {
  const uint64_t parts[] = {*digest, KeyedHash(key_, values.data(), values.size() * sizeof(T))};
  *digest = KeyedHash(key_, parts, sizeof(parts));
}

void AuditBook::AddRows(const SparseRows& rows, uint64_t* digest) const {
  Add(rows.offsets, digest);
  Add(rows.ids, digest);
  Add(rows.values, digest);
}

// Executors that differ hold what no digest tells, so this one is like no other.
void AuditBook::Spoil(uint64_t* digest) { Add(std::vector<uint64_t>{++clock_}, digest); }

AuditBook::Execution* AuditBook::Find(Incarnation worker, const BatchId& batch) {
  const auto found = open_.find({worker, batch});
  return found == open_.end() ? nullptr : &found->second;
}

void AuditBook::End(const Key& key) { open_.erase(key); }

// A worker has no more batches in the executors' tables either. Of those that these drop besides no
// push is carried out.
AuditBook::Execution* AuditBook::Begin(const Key& key) {
  End(key);
  const auto first = open_.lower_bound({key.worker, {}});
  const auto last = open_.upper_bound({key.worker, {~0u, ~0u, ~0u}});
  if (static_cast<size_t>(std::distance(first, last)) >= kMaxBatchesOfWorker) End(first->first);
  Execution& execution = open_[key];
  execution.begun = ++clock_;
  return &execution;
}

void AuditBook::Begin(Incarnation worker, const EmbedRequest& request, bool whole) {
  Execution* execution = Begin({worker, request.batch});
  AddRows(request.features, &execution->input);
  if (!whole) Spoil(&execution->input);
  execution->output = execution->input;
}

void AuditBook::Ask(Incarnation worker, const ActiveQuery& query, bool whole) {
  Execution* execution = query.alone ? Begin({worker, query.batch}) : Find(worker, query.batch);
  if (execution == nullptr) return;
  execution->alone = query.alone;
  Add(query.hidden.data, &execution->output);
  AddRows(query.labels, &execution->output);
  Add(query.label_totals, &execution->output);
  Add(query.weights, &execution->output);
  if (!whole) Spoil(&execution->output);
}

AuditBook::Pushed& AuditBook::PushedBy(Incarnation worker, Batch* batch) {
  if (const auto found = batch->pushed.find(worker); found != batch->pushed.end()) {
    return found->second;
  }
  if (batch->pushed.size() >= kMostOfBatch) {
    const auto counts = [&](Incarnation one) {
      return one == batch->output_counts || one == batch->input_counts;
    };
    batch->pushed.erase(std::ranges::min_element(batch->pushed, {}, [&](const auto& entry) {
      return std::pair(counts(entry.first), entry.second.order);
    }));
  }
  Pushed& pushed = batch->pushed[worker];
  pushed.order = ++clock_;
  return pushed;
}

void AuditBook::FreezeOutput(Incarnation worker, const GradientPush& push, uint64_t digest) {
  Batch& batch = batches_[push.batch];
  Pushed& own = PushedBy(worker, &batch);
  if (own.output != 0) return;
  if (batch.output_counts == Incarnation{}) batch.output_counts = worker;
  // A normaliser that is close to an earlier one counts as that one.
  own.log_normaliser = push.log_normaliser;
  const Pushed* like = nullptr;
  for (const auto& [other, pushed] : batch.pushed) {
    if (pushed.output == 0 || !AreClose(pushed.log_normaliser, push.log_normaliser)) continue;
    if (like == nullptr || pushed.order < like->order) like = &pushed;
  }
  if (like != nullptr) own.log_normaliser = like->log_normaliser;
  Add(own.log_normaliser, &digest);
  own.output = NotZero(digest);
}

std::optional<AuditReport> AuditBook::Push(Incarnation worker, const GradientPush& push,
                                           bool whole) {
  Execution* execution = Find(worker, push.batch);
  uint64_t digest = execution == nullptr ? 0 : execution->output;
  if (execution == nullptr || !whole) Spoil(&digest);
  FreezeOutput(worker, push, digest);
  if (execution == nullptr || !execution->alone) return std::nullopt;
  End({worker, push.batch});
  return ReportOf(push.batch);
}

std::optional<AuditReport> AuditBook::Push(Incarnation worker, const EmbedPush& push, bool whole) {
  const Execution* execution = Find(worker, push.batch);
  uint64_t digest = execution == nullptr ? 0 : execution->input;
  if (execution == nullptr || !whole) Spoil(&digest);
  Add(push.gradient.data, &digest);
  if (push.dense) {
    Add(push.dense->ids, &digest);
    Add(push.dense->values.data, &digest);
  }
  Batch& batch = batches_[push.batch];
  Pushed& own = PushedBy(worker, &batch);
  if (own.input == 0) own.input = NotZero(digest);
  if (batch.input_counts == Incarnation{}) batch.input_counts = worker;
  End({worker, push.batch});
  return ReportOf(push.batch);
}

std::optional<AuditReport> AuditBook::Note(Incarnation worker, const Body& request,
                                           Outcome outcome) {
  using Report = std::optional<AuditReport>;
  return std::visit(Overloaded{
                        [&](const EmbedRequest& embed) -> Report {
                          if (embed.training) Begin(worker, embed, outcome.whole);
                          return std::nullopt;
                        },
                        [&](const ActiveQuery& query) -> Report {
                          Ask(worker, query, outcome.whole);
                          return std::nullopt;
                        },
                        [&](const GradientPush& push) { return Push(worker, push, outcome.whole); },
                        [&](const EmbedPush& push) {
                          Report report = Push(worker, push, outcome.whole);
                          if (push.next && push.next->training && outcome.next_begun) {
                            Begin(worker, *push.next, true);
                          }
                          return report;
                        },
                        [](const auto&) -> Report { return std::nullopt; },
                    },
                    request);
}

std::optional<AuditReport> AuditBook::ReportOf(const BatchId& id) const {
  const Batch& batch = batches_.at(id);
  if (batch.pushed.size() < 2) return std::nullopt;
  AuditReport report;
  report.batch = id;
  report.output_counts = batch.output_counts.value;
  report.input_counts = batch.input_counts.value;
  for (const auto& [worker, pushed] : batch.pushed) {
    report.workers.push_back(worker.value);
    report.digests.push_back(pushed.output);
    report.input_digests.push_back(pushed.input);
  }
  return report;
}

}  // namespace dslide
