// Picks, per query, the rows that share a bucket with it in the most tables: the best ones for a
// search, or each with the probability of being drawn for training.
//
// Rows above the cut are drawn for certain, rows at the cut all with the same probability, and rows
// below it with none. So the probability of every row is known, drawn or not, and a sum over drawn
// rows can be weighted without bias. Nothing is assumed about the hash family, or about how its
// tables depend on each other: the tables are given, and the chance is that of the draw.
//
// Sampling by hash tables is from Spring, Shrivastava: "A New Unbiased and Efficient Class of
// LSH-Based Samplers and Estimators for Partition Function Computation in Log-Linear Models", 2017,
// and Chen, Xu, Shrivastava: "Fast and Accurate Stochastic Gradient Estimation", NeurIPS 2019.
// There the chance is over the choice of hash functions, by the angle between query and row, which
// is without bias only if each query has functions of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/model/lsh/hash_tables.h"

namespace dslide {

// Holds the scratch for one thread.
class CandidateRanker {
 public:
  struct Candidate {
    uint32_t row;
    float pi;  // the probability with which it is to be drawn
  };

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

  // The rows with pi > 0, in the order of their first bucket entry, where `expected` are to be
  // drawn on average: pi = 1 if fewer than `expected` rows share as many tables with the query or
  // more. The sum of pi is `expected`, or the number of rows in the query's buckets if that is
  // less. The result is valid until the next call. REQUIRES as Rank(), and expected > 0.
  std::span<const Candidate> Candidates(const HashTables& tables, std::span<const BucketCode> codes,
                                        uint32_t expected);

 private:
  // Rows found in more than `count` tables are taken, and `ties` of those `at` rows that are found
  // in exactly `count`; all of them if ties > at.
  struct Cut {
    uint32_t count;
    uint32_t ties;
    uint32_t at;
  };

  void Open(const HashTables& tables, std::span<const BucketCode> codes);
  Cut FindCut(const HashTables& tables, std::span<const BucketCode> codes, uint32_t limit);
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
  std::vector<Candidate> candidates_;
};

}  // namespace dslide
