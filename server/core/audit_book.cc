#include "server/core/audit_book.h"

#include <algorithm>
#include <cmath>

namespace dslide {
namespace {

bool AreClose(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return std::abs(x - y) <= AuditBook::kLogTolerance; });
}

}  // namespace

template <typename T>
void AuditBook::Add(const std::vector<T>& values, Execution* execution) const {
  const uint64_t parts[] = {execution->digest,
                            KeyedHash(key_, values.data(), values.size() * sizeof(T))};
  execution->digest = KeyedHash(key_, parts, sizeof(parts));
}

std::optional<AuditReport> AuditBook::Note(Incarnation worker, const Body& request) {
  // Null: this worker has ended the batch before, and what it sent then is what may count.
  const auto begin = [&](const BatchId& batch) -> Execution* {
    if (const auto found = executions_.find({batch, worker});
        found != executions_.end() && found->second.ended > 0) {
      return nullptr;
    }
    while (executions_.size() >= kMostExecutions) {
      executions_.erase(std::ranges::min_element(
          executions_, {}, [](const auto& entry) { return entry.second.begun; }));
    }
    Execution& execution = executions_[{batch, worker}];
    execution = Execution();
    execution.begun = ++clock_;
    return &execution;
  };
  const auto find = [&](const BatchId& batch) -> Execution* {
    const auto found = executions_.find({batch, worker});
    return found == executions_.end() || found->second.ended > 0 ? nullptr : &found->second;
  };
  const auto add_rows = [&](const SparseRows& rows, Execution* execution) {
    if (execution == nullptr) return;
    Add(rows.offsets, execution);
    Add(rows.ids, execution);
    Add(rows.values, execution);
  };
  if (const auto* embed = std::get_if<EmbedRequest>(&request)) {
    if (embed->training) add_rows(embed->features, begin(embed->batch));
    return std::nullopt;
  }
  if (const auto* query = std::get_if<ActiveQuery>(&request)) {
    Execution* execution = query->alone ? begin(query->batch) : find(query->batch);
    if (execution == nullptr) return std::nullopt;
    execution->alone = query->alone;
    Add(query->hidden.data, execution);
    add_rows(query->labels, execution);
    Add(query->label_totals, execution);
    Add(query->weights, execution);
    return std::nullopt;
  }
  if (const auto* push = std::get_if<GradientPush>(&request)) {
    Execution* execution = find(push->batch);
    if (execution == nullptr) return std::nullopt;
    execution->log_normaliser = push->log_normaliser;
    if (execution->alone) return End(push->batch, execution);
    return std::nullopt;
  }
  if (const auto* push = std::get_if<EmbedPush>(&request)) {
    std::optional<AuditReport> report;
    if (Execution* execution = find(push->batch)) {
      Add(push->gradient.data, execution);
      report = End(push->batch, execution);
    }
    if (push->next) add_rows(push->next->features, begin(push->next->batch));
    return report;
  }
  return std::nullopt;
}

std::optional<AuditReport> AuditBook::End(const BatchId& batch, Execution* execution) {
  std::vector<const std::pair<const Key, Execution>*> ended;
  for (auto entry = executions_.lower_bound({batch, {}});
       entry != executions_.end() && entry->first.batch == batch; ++entry) {
    if (entry->second.ended > 0) ended.push_back(&*entry);
  }
  std::ranges::sort(ended, {}, [](const auto* entry) { return entry->second.ended; });
  // A normaliser that is close to an earlier one counts as that one.
  const auto like = std::ranges::find_if(ended, [&](const auto* entry) {
    return AreClose(entry->second.log_normaliser, execution->log_normaliser);
  });
  if (like != ended.end()) execution->log_normaliser = (*like)->second.log_normaliser;
  Add(execution->log_normaliser, execution);
  execution->ended = ++clock_;
  if (ended.empty()) return std::nullopt;
  AuditReport report{batch, {}, {}};
  for (const auto* entry : ended) {
    report.workers.push_back(entry->first.worker.value);
    report.digests.push_back(entry->second.digest);
  }
  for (const auto& [key, value] : executions_) {
    if (&value != execution) continue;
    report.workers.push_back(key.worker.value);
    report.digests.push_back(value.digest);
  }
  return report;
}

}  // namespace dslide
