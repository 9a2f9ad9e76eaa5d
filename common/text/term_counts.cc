#include "common/text/term_counts.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/text/records/line_blocks.h"

namespace dslide {
namespace {

constexpr size_t kLeastEntries = 1024;

size_t ShardOf(uint64_t hash) { return hash >> 58; }
static_assert(TermCounts::kShards == size_t{1} << (64 - 58));

}  // namespace

// The upper bits tell the shard, so the lower ones place a term.
size_t TermTable::Place(uint64_t hash) const {
  const size_t mask = entries_.size() - 1;
  size_t at = hash & mask;
  while (entries_[at].samples > 0 && entries_[at].hash != hash) at = (at + 1) & mask;
  return at;
}

void TermTable::Grow() {
  std::vector<Entry> before(std::max(kLeastEntries, 2 * entries_.size()));
  before.swap(entries_);
  for (const Entry& entry : before) {
    if (entry.samples > 0) entries_[Place(entry.hash)] = entry;
  }
}

void TermTable::ForgetRarest() {
  std::vector<uint32_t> counts;
  ForEach([&](const Entry& entry) { counts.push_back(entry.samples); });
  std::ranges::nth_element(counts, counts.begin() + static_cast<std::ptrdiff_t>(size_ / 2));
  const uint32_t most = counts[size_ / 2];
  TermTable kept;
  ForEach([&](const Entry& entry) {
    if (entry.samples > most)
      kept.Add(entry.hash, entry.block, entry.samples, [&] { return NameOf(entry); });
  });
  *this = std::move(kept);
}

void TermCounts::Merge(const std::vector<TermTable>& blocks, size_t threads) {
  DSLIDE_CHECK(threads > 0);
  const size_t most = std::max<size_t>(1, most_terms_ / kShards);
  InParallel(threads, [&](size_t thread) {
    for (const TermTable& block : blocks) {
      block.ForEach([&](const TermTable::Entry& entry) {
        const size_t shard = ShardOf(entry.hash);
        if (shard % threads != thread) return;
        shards_[shard].Add(entry.hash, entry.block, entry.samples,
                           [&] { return block.NameOf(entry); });
      });
      for (size_t shard = thread; shard < kShards; shard += threads) {
        while (shards_[shard].size() > most) shards_[shard].ForgetRarest();
      }
    }
  });
}

}  // namespace dslide
