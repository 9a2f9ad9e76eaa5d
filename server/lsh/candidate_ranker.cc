#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "server/lsh/hash_tables.h"

namespace dslide {
namespace {

// Copies of the counters of at_least_, used in turn: most increments go to the same counter, and
// each would wait for the store of the one before.
constexpr size_t kCopies = 8;

constexpr size_t kEntriesPerCacheLine = 64 / sizeof(uint32_t);

void Prefetch(std::span<const uint32_t> bucket) {
  for (size_t i = 0; i < bucket.size(); i += kEntriesPerCacheLine) {
    __builtin_prefetch(bucket.data() + i);
  }
}

}  // namespace

// One place more than rows: Count() writes a row before it knows whether it is a new one.
CandidateRanker::CandidateRanker(uint32_t rows) : counts_(rows, 0), touched_(size_t{rows} + 1) {}

uint64_t CandidateRanker::Rank(const HashTables& tables, std::span<const uint32_t> codes,
                               uint32_t limit, std::vector<uint32_t>* out) {
  DSLIDE_CHECK(codes.size() == tables.tables() && tables.rows() == counts_.size());
  DSLIDE_CHECK(tables.tables() <= std::numeric_limits<uint16_t>::max());
  const uint64_t entries = Count(tables, codes);
  TakeAndReset(FindCut(limit), limit, out);
  return entries;
}

uint64_t CandidateRanker::Count(const HashTables& tables, std::span<const uint32_t> codes) {
  // The buckets are far apart in memory: all of them are asked for before the first is read.
  for (uint32_t t = 0; t < tables.tables(); ++t) Prefetch(tables.Bucket(t, codes[t]));
  at_least_.assign((size_t{tables.tables()} + 2) * kCopies, 0);
  uint64_t entries = 0;
  size_t touched = 0;
  for (uint32_t t = 0; t < tables.tables(); ++t) {
    const std::span<const uint32_t> bucket = tables.Bucket(t, codes[t]);
    entries += bucket.size();
    for (size_t i = 0; i < bucket.size(); ++i) {
      const uint32_t row = bucket[i];
      const uint16_t count = ++counts_[row];
      touched_[touched] = row;
      touched += count == 1;  // no branch: it would be mispredicted every few rows
      ++at_least_[count * kCopies + i % kCopies];
    }
  }
  touched_size_ = touched;
  return entries;
}

uint32_t CandidateRanker::AtLeast(uint32_t count) const {
  const uint32_t* copies = at_least_.data() + count * kCopies;
  return std::accumulate(copies, copies + kCopies, 0u);
}

CandidateRanker::Cut CandidateRanker::FindCut(uint32_t limit) const {
  uint32_t count = 0;
  while (AtLeast(count + 1) > limit) ++count;
  return {.count = count, .ties = limit - AtLeast(count + 1)};
}

void CandidateRanker::TakeAndReset(Cut cut, uint32_t limit, std::vector<uint32_t>* out) {
  const size_t before = out->size();
  // One place more, as in Count().
  out->resize(before + std::min<size_t>(limit, touched_size_) + 1);
  uint32_t* next = out->data() + before;
  uint16_t* counts = counts_.data();
  const uint32_t* row = touched_.data();
  const uint32_t* end = row + touched_size_;
  for (; row != end && cut.ties > 0; ++row) {
    const uint32_t count = std::exchange(counts[*row], uint16_t{0});
    *next = *row;
    next += count >= cut.count;
    cut.ties -= count == cut.count;
  }
  for (; row != end; ++row) {
    const uint32_t count = std::exchange(counts[*row], uint16_t{0});
    *next = *row;
    next += count > cut.count;
  }
  out->resize(static_cast<size_t>(next - out->data()));
}

}  // namespace dslide
