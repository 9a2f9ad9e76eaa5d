// An evaluation in progress: the metrics so far, the last samples, and which batches another worker
// evaluates as well, so that no worker's word alone makes the figures.
//
// In a run with keys the first batch of each worker is evaluated twice, a later one less and less
// often (1 / n^2 of the nth, and kShare at least): a worker that always lies is found at once, and
// an honest one costs 1.6 batches more and 2 % of the rest. Servers answer all workers alike, and
// evaluations are rounded by the configuration alone, so honest workers predict the same labels
// while one slot plan is in force.
//
// Pure; owned by the scheduler's thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/data/data_order.h"
#include "common/data/measures/metrics.h"
#include "common/wire/messages.h"
#include "scheduler/base/effects.h"

namespace dslide {

class Evaluation {
 public:
  static constexpr size_t kExamples = 10;
  static constexpr float kShare = 0.02f;
  static constexpr int kMostAgain = 3;  // times that one begins again; a liar may come back
  // Who reports predictions to the audits (Audits::Server): the scheduler itself.
  static constexpr Incarnation kWitness{1};

  Evaluation(EvaluationSet set, InversePropensities propensities)
      : set_(set), metrics_(std::move(propensities)) {}

  EvaluationSet set() const { return set_; }
  RankingMetrics Result() const { return metrics_.Result(); }
  // [samples of the order] nDCG@kMaxMetricK of each.
  std::vector<float> TakeNdcg() { return std::exchange(ndcg_, {}); }
  // The last kExamples samples, the oldest first.
  std::vector<EvaluatedSample> TakeExamples() { return std::exchange(examples_, {}); }

  // Predictions of the samples of `order` from `first` on. REQUIRES that they exist.
  void Add(const TopKReply& predictions, const DataOrder& order, uint64_t first);
  // Forgets all predictions. False: it has done so kMostAgain times already, and keeps them.
  [[nodiscard]] bool BeginAgain();

  // The share of this worker's next batch to be evaluated by another one. Counts it.
  float NextShare(Incarnation worker);
  // Predictions by this slot plan are compared from now on. False: they are of an earlier one.
  // *changed: those before cannot be compared with them.
  bool FollowsPlan(uint32_t version, bool* changed);

  // What the witness says of a worker's predictions. `secret`: nobody can aim at a digest.
  static AuditReport ReportOf(const BatchId& batch, Incarnation worker, const TopKReply& said,
                              bool counts, uint64_t secret);

 private:
  void KeepExamples(const TopKReply& predictions, const DataOrder& order, uint64_t first);

  EvaluationSet set_;
  RankingEvaluator metrics_;
  std::vector<float> ndcg_;
  std::vector<EvaluatedSample> examples_;
  std::map<Incarnation, uint64_t> counted_;  // batches by worker
  uint32_t plan_version_ = 0;
  int again_ = 0;
};

}  // namespace dslide
