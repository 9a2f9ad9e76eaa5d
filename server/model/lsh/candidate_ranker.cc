#include "server/model/lsh/candidate_ranker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/math/prefetch.h"

namespace dslide {

// One place more than rows: Count() writes a row before it decides whether to list the row.
CandidateRanker::CandidateRanker(uint32_t rows) : counts_(rows, 0), frequent_(size_t{rows} + 1) {}

void CandidateRanker::Resize(uint32_t rows) {
  counts_.resize(rows, 0);
  frequent_.resize(size_t{rows} + 1);
}

uint64_t CandidateRanker::Rank(const HashTables& tables, std::span<const BucketCode> codes,
                               uint32_t limit, std::vector<uint32_t>* out) {
  const Cut cut = FindCut(tables, codes, limit);
  TakeAndReset(cut, std::min<uint64_t>(limit, entries_), out);
  return entries_;
}

std::span<const CandidateRanker::Candidate> CandidateRanker::Candidates(
    const HashTables& tables, std::span<const BucketCode> codes, uint32_t expected) {
  DSLIDE_CHECK(expected > 0);
  const Cut cut = FindCut(tables, codes, expected);
  const float share =
      cut.at > cut.ties ? static_cast<float>(cut.ties) / static_cast<float>(cut.at) : 1.0f;
  const uint32_t least = cut.ties > 0 ? cut.count : cut.count + 1;
  candidates_.clear();
  for (const auto bucket : buckets_) {
    for (const uint32_t row : bucket) {
      const uint32_t count = std::exchange(counts_[row], uint8_t{0});
      if (count >= least) candidates_.push_back({row, count == cut.count ? share : 1.0f});
    }
  }
  return candidates_;
}

void CandidateRanker::Prefetch(const HashTables& tables, std::span<const BucketCode> codes) {
  for (uint32_t t = 0; t < codes.size(); ++t) {
    const auto bucket = tables.Bucket(t, codes[t]);
    dslide::Prefetch(bucket.data(), bucket.size_bytes());
  }
}

void CandidateRanker::Open(const HashTables& tables, std::span<const BucketCode> codes) {
  buckets_.resize(codes.size());
  entries_ = 0;
  for (uint32_t t = 0; t < codes.size(); ++t) {
    buckets_[t] = tables.Bucket(t, codes[t]);
    entries_ += buckets_[t].size();
  }
}

CandidateRanker::Cut CandidateRanker::FindCut(const HashTables& tables,
                                              std::span<const BucketCode> codes, uint32_t limit) {
  DSLIDE_CHECK(codes.size() == tables.size() && tables.rows() == counts_.size());
  DSLIDE_CHECK(tables.size() <= kMaxTables);
  Open(tables, codes);
  return FindCut(Count(), limit);
}

// Counts, for every row, the tables that return it. Returns the number of rows in frequent_.
uint32_t CandidateRanker::Count() {
  uint8_t* counts = counts_.data();
  uint32_t* listed = frequent_.data();
  const uint32_t threshold = threshold_;
  for (const auto bucket : buckets_) {
    for (const uint32_t row : bucket) {
      const uint32_t count = ++counts[row];
      *listed = row;
      listed += count == threshold;  // no branch: it would be mispredicted every few rows
    }
  }
  return static_cast<uint32_t>(listed - frequent_.data());
}

CandidateRanker::Cut CandidateRanker::FindCut(uint32_t frequent, uint32_t limit) {
  std::array<uint32_t, kMaxTables + 2> rows{};  // [c] found in c tables
  if (frequent >= limit) {
    for (uint32_t i = 0; i < frequent; ++i) ++rows[counts_[frequent_[i]]];
  } else {
    // A row that is in c tables is met c times.
    for (const auto bucket : buckets_) {
      for (const uint32_t row : bucket) ++rows[counts_[row]];
    }
    for (uint32_t count = 1; count < rows.size(); ++count) rows[count] /= count;
  }
  uint32_t above = 0;  // rows in more than `count` tables
  uint32_t count = kMaxTables;
  while (count > 1 && above < limit && above + rows[count] <= limit) above += rows[count--];
  threshold_ = std::max(1u, count - 1);
  return {.count = count, .ties = limit - above, .at = rows[count]};
}

void CandidateRanker::TakeAndReset(Cut cut, size_t taken, std::vector<uint32_t>* out) {
  const size_t before = out->size();
  // One place more than `taken`: a row is written before it is known to be taken.
  out->resize(before + taken + 1);
  uint32_t* next = out->data() + before;
  uint8_t* counts = counts_.data();
  uint32_t ties = cut.ties;
  for (const auto bucket : buckets_) {
    for (const uint32_t row : bucket) {
      const uint32_t count = std::exchange(counts[row], uint8_t{0});
      const bool tie = count == cut.count && ties > 0;
      *next = row;
      next += count > cut.count || tie;
      ties -= tie;
    }
  }
  out->resize(static_cast<size_t>(next - out->data()));
}

}  // namespace dslide
