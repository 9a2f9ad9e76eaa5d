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
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/data/data_order.h"
#include "common/data/measures/logit_adjustment.h"
#include "common/data/measures/metrics.h"
#include "common/wire/messages.h"
#include "scheduler/base/actions.h"

namespace dslide {

class Evaluation {
 public:
  static constexpr size_t kExamples = 10;
  static constexpr float kShare = 0.02f;
  static constexpr int kMostAgain = 3;  // times that one begins again; a liar may come back
  // Who reports predictions to the audits (Audits::Server): the scheduler itself.
  static constexpr Incarnation kWitness{1};

  // An evaluation with logs asks workers for kAdjustedLabels labels and their scores.
  struct Adjustment {
    std::shared_ptr<const LabelLogs> logs;
    std::optional<float> weight;  // of the rankings that are measured
    bool keeps_samples = false;   // kMostKept samples are kept with their predictions; wants logs
  };
  static constexpr size_t kMostKept = 20'000;  // the fit of so many takes a second

  Evaluation(EvaluationSet set, InversePropensities propensities, Adjustment adjustment)
      : set_(set), metrics_(std::move(propensities)), adjustment_(std::move(adjustment)) {
    DSLIDE_CHECK(adjusts() || !(adjustment_.weight || adjustment_.keeps_samples));
  }
  Evaluation(EvaluationSet set, InversePropensities propensities)
      : Evaluation(set, std::move(propensities), Adjustment()) {}

  EvaluationSet set() const { return set_; }
  // Labels that a worker predicts for a sample.
  uint32_t top_k() const { return adjusts() ? kAdjustedLabels : kMaxMetricK; }
  // Whether predictions need scores.
  bool adjusts() const { return adjustment_.logs != nullptr; }
  RankingMetrics Result() const { return metrics_.Result(); }
  // [samples of the order] nDCG@kMaxMetricK of each.
  std::vector<float> TakeNdcg() { return std::exchange(ndcg_, {}); }
  // The samples that were kept, in their order.
  std::vector<RankedSample> TakeSamples() { return std::exchange(kept_, {}); }
  // The last kExamples samples, the oldest first.
  std::vector<EvaluatedSample> TakeExamples() { return std::exchange(examples_, {}); }

  // Whether a worker's predictions have the form that was asked for: at most top_k() labels a
  // sample, and if adjusts() as many scores, which descend and are at most kMostScore either way.
  static constexpr float kMostScore = 1e6f;
  bool IsWellFormed(const TopKReply& predictions) const;
  // Predictions of the samples of `order` from `first` on. REQUIRES that they exist and that
  // the predictions are well-formed.
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
  Adjustment adjustment_;
  std::vector<float> ndcg_;
  std::vector<RankedSample> kept_;
  std::vector<EvaluatedSample> examples_;
  std::map<Incarnation, uint64_t> counted_;  // batches by worker
  uint32_t plan_version_ = 0;
  int again_ = 0;
};

}  // namespace dslide
