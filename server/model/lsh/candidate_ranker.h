// Picks, per query, the rows that share a bucket with it in the most tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/model/lsh/hash_tables.h"

namespace dslide {

// Holds the scratch for one thread.
class CandidateRanker {
 public:
  explicit CandidateRanker(uint32_t rows);
  // REQUIRES that `rows` does not shrink.
  void Resize(uint32_t rows);

  // Prefetches the buckets of a coming query: they are far apart in memory.
  static void Prefetch(const HashTables& tables, std::span<const BucketCode> codes);

  // Appends to `out` the at most `limit` rows that share a bucket with the query (`codes`,
  // [tables]) in the most of the L tables. Their order is that of their first bucket entry (by
  // table number, then within the bucket); ties at the cut go to the rows that come first. Returns
  // how many bucket entries were read. REQUIRES valid codes, and tables.rows() equal to the `rows`
  // last given.
  uint64_t Rank(const HashTables& tables, std::span<const BucketCode> codes, uint32_t limit,
                std::vector<uint32_t>* out);

 private:
  // Rows found in more than `count` tables are taken, and the first `ties` rows found in exactly
  // `count`.
  struct Cut {
    uint32_t count;
    uint32_t ties;
  };

  void Open(const HashTables& tables, std::span<const BucketCode> codes);
  uint32_t Count();
  Cut FindCut(uint32_t frequent, uint32_t limit);
  void TakeAndReset(Cut cut, size_t taken, std::vector<uint32_t>* out);

  std::vector<std::span<const uint32_t>> buckets_;  // of the query
  uint64_t entries_ = 0;                            // in buckets_
  std::vector<uint8_t> counts_;                     // [rows], zero between calls
  // Count() lists a row when its count reaches this. A guess from the last query: no row below it
  // is likely to be taken. The result does not depend on the guess.
  uint32_t threshold_ = 2;
  std::vector<uint32_t> frequent_;  // [rows + 1]
};

}  // namespace dslide
