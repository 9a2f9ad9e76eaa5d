#include "scheduler/pass/evaluation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "common/base/random.h"

namespace dslide {
namespace {

// Digests the predicted labels in their order, with their scores. Never 0, the digest of none.
uint64_t DigestOf(const TopKReply& said, uint64_t secret) {
  uint64_t digest = SubSeed(secret, said.ids.size());
  for (const uint32_t offset : said.offsets) digest = SubSeed(digest, offset);
  for (const uint32_t id : said.ids) digest = SubSeed(digest, id);
  for (const float score : said.scores) digest = SubSeed(digest, std::bit_cast<uint32_t>(score));
  return std::max<uint64_t>(1, digest);
}

}  // namespace

bool Evaluation::IsWellFormed(const TopKReply& predictions) const {
  const std::vector<float>& scores = predictions.scores;
  if (adjusts() && scores.size() != predictions.ids.size()) return false;
  for (size_t i = 0; i + 1 < predictions.offsets.size(); ++i) {
    const uint32_t begin = predictions.offsets[i], end = predictions.offsets[i + 1];
    if (end - begin > top_k()) return false;
    for (uint32_t e = begin; adjusts() && e < end; ++e) {
      const bool ordered = e == begin || scores[e] <= scores[e - 1];
      if (!ordered || !(std::abs(scores[e]) <= kMostScore)) return false;
    }
  }
  return true;
}

void Evaluation::Add(const TopKReply& predictions, const DataOrder& order, uint64_t first) {
  const size_t samples = predictions.offsets.size() - 1;
  ndcg_.resize(order.samples());
  if (adjustment_.keeps_samples) kept_.resize(std::min<size_t>(kMostKept, order.samples()));
  TopKReply measured;
  for (size_t i = 0; i < samples; ++i) {
    const size_t begin = predictions.offsets[i], count = predictions.offsets[i + 1] - begin;
    const std::span<const uint32_t> ids(predictions.ids.data() + begin, count);
    const auto labels = order.Sample(first + i).labels;
    std::vector<uint32_t> best(ids.begin(), ids.end());
    if (adjusts()) {
      const std::span<const float> scores(predictions.scores.data() + begin, count);
      if (first + i < kept_.size()) {
        kept_[first + i] = {{labels.begin(), labels.end()}, best, {scores.begin(), scores.end()}};
      }
      best = AdjustedRanking(ids, scores, *adjustment_.logs, adjustment_.weight.value_or(0),
                             kMaxMetricK);
    }
    ndcg_[first + i] = static_cast<float>(metrics_.Add(best, labels));
    measured.ids.insert(measured.ids.end(), best.begin(), best.end());
    measured.offsets.push_back(static_cast<uint32_t>(measured.ids.size()));
  }
  KeepExamples(measured, order, first);
}

bool Evaluation::BeginAgain() {
  if (again_ == kMostAgain) return false;
  again_++;
  metrics_.Clear();
  examples_.clear();
  counted_.clear();
  return true;
}

// Of a batch's predictions the last ones.
void Evaluation::KeepExamples(const TopKReply& predictions, const DataOrder& order,
                              uint64_t first) {
  const size_t samples = predictions.offsets.size() - 1;
  const size_t taken = std::min(samples, kExamples);
  const size_t kept = std::min(examples_.size(), kExamples - taken);
  examples_.erase(examples_.begin(), examples_.end() - static_cast<std::ptrdiff_t>(kept));
  for (size_t i = samples - taken; i < samples; ++i) {
    const auto labels = order.Sample(first + i).labels;
    const uint32_t* ids = predictions.ids.data();
    examples_.push_back({order.Number(first + i),
                         {labels.begin(), labels.end()},
                         {ids + predictions.offsets[i], ids + predictions.offsets[i + 1]}});
  }
}

float Evaluation::NextShare(Incarnation worker) {
  const auto n = static_cast<float>(++counted_[worker]);
  return std::max(kShare, 1 / (n * n));
}

bool Evaluation::FollowsPlan(uint32_t version, bool* changed) {
  *changed = version > plan_version_ && plan_version_ != 0;
  plan_version_ = std::max(plan_version_, version);
  return version == plan_version_;
}

AuditReport Evaluation::ReportOf(const BatchId& batch, Incarnation worker, const TopKReply& said,
                                 bool counts, uint64_t secret) {
  AuditReport report;
  report.batch = batch;
  report.workers = {worker.value};
  report.digests = {DigestOf(said, secret)};
  report.input_digests = {0};
  if (counts) report.output_counts = worker.value;
  return report;
}

}  // namespace dslide
