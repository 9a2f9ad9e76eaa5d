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
  // REQUIRES rows >= as many as before.
  void Resize(uint32_t rows);

  // Has the buckets of a query to come brought near: they are far apart in memory.
  static void Prefetch(const HashTables& tables, std::span<const BucketCode> codes);

  // Appends to `out`, in the order of their first bucket entry (by table number, then within the
  // bucket), the at most `limit` rows that most of the L tables return for the query's `codes`
  // ([tables]); ties at the cut go to those that come first. Returns how many bucket entries were
  // read. REQUIRES tables.rows() as last given and valid codes.
  uint64_t Rank(const HashTables& tables, std::span<const BucketCode> codes, uint32_t limit,
                std::vector<uint32_t>* out);

 private:
  // Rows found in more than `count` tables are taken, and the first `ties` of those in `count`.
  struct Cut {
    uint32_t count;
    uint32_t ties;
  };

  void Open(const HashTables& tables, std::span<const BucketCode> codes);
  uint32_t Count();
  Cut FindCut(uint32_t frequent, uint32_t limit);
  void TakeAndReset(Cut cut, size_t taken, std::vector<uint32_t>* out);

  std::vector<std::span<const uint32_t>> buckets_;  // of the query
  uint64_t entries_ = 0;                            // in them
  std::vector<uint8_t> counts_;                     // [rows], zero between calls
  // A row is listed when its count gets here: a guess, from the last query, below which no row is
  // likely to be taken. The result does not depend on it.
  uint32_t threshold_ = 2;
  std::vector<uint32_t> frequent_;  // [rows + 1]
};

}  // namespace dslide
