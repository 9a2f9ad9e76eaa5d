// The buckets of one executor: L compact tables from bucket code to neuron rows.
//
// A table is bucket offsets (2^bits + 1) and one array of row numbers sorted by bucket: 4 bytes an
// entry, plus 4 for the row's current code, hence 8 bytes x L per neuron. A row whose weights
// changed gets its new codes at once (SetCodes); the arrays follow when its table is rebuilt by a
// counting sort, one table after the other (RebuildNext), so no rebuild ever stops the world and
// an entry lags behind its code by at most L rebuilds.
//
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dslide {

// How the buckets are filled, over all tables.
struct BucketOccupancy {
  double empty_share = 0;  // of buckets
  double mean = 0;         // rows a non-empty bucket
  uint32_t p99 = 0;        // rows that 99 of 100 non-empty buckets do not exceed
  uint32_t largest = 0;    // rows
};

class HashTables {
 public:
  static constexpr uint32_t kNoCode = 0xffffffffu;

  // Tables over rows [0, rows), all of them without a code (in no bucket) at first.
  HashTables(uint32_t tables, uint32_t bits, uint32_t rows);

  uint32_t tables() const { return tables_; }
  uint32_t rows() const { return rows_; }

  // Sets a row's current codes ([tables()], kNoCode in all: the row leaves its buckets).
  void SetCodes(uint32_t row, std::span<const uint32_t> codes);
  // The row's current codes, [tables()]: what a checkpoint stores.
  std::span<const uint32_t> Codes(uint32_t row) const;

  // Sorts the next table's entries by the current codes; round robin.
  void RebuildNext();
  void RebuildAll();

  // Rows in bucket `code` of table `t`, ascending, as of the table's last rebuild; none before the
  // first.
  std::span<const uint32_t> Bucket(uint32_t t, uint32_t code) const;

  BucketOccupancy Occupancy() const;

 private:
  void Rebuild(uint32_t t);

  uint32_t tables_;
  uint32_t rows_;
  uint32_t buckets_;
  uint32_t next_ = 0;
  std::vector<uint32_t> codes_;    // [rows x tables]
  std::vector<uint32_t> offsets_;  // [tables x (buckets + 1)]
  std::vector<uint32_t> entries_;  // [tables x rows]
};

// Picks, per query, the rows that share a bucket with it in the most tables. Holds the scratch
// for one thread.
class CandidateRanker {
 public:
  explicit CandidateRanker(uint32_t rows);

  // Appends to `out`, in the order of their first bucket entry (by table number, then within the
  // bucket), the at most `limit` rows that most of the L tables return for the query's `codes`
  // ([tables]); ties at the cut go to those that come first. Returns how many bucket entries were
  // read. REQUIRES tables.rows() as given to the constructor and valid codes.
  uint64_t Rank(const HashTables& tables, std::span<const uint32_t> codes, uint32_t limit,
                std::vector<uint32_t>* out);

 private:
  // Rows found in more than `count` tables are taken, and the first `ties` of those in `count`.
  struct Cut {
    uint32_t count;
    uint32_t ties;
  };

  uint64_t Count(const HashTables& tables, std::span<const uint32_t> codes);
  uint32_t AtLeast(uint32_t count) const;  // rows found in `count` tables or more
  Cut FindCut(uint32_t limit) const;
  void TakeAndReset(Cut cut, uint32_t limit, std::vector<uint32_t>* out);

  std::vector<uint16_t> counts_;   // [rows], zero between calls
  std::vector<uint32_t> touched_;  // [rows + 1], the first touched_size_ are the rows found
  size_t touched_size_ = 0;
  std::vector<uint32_t> at_least_;  // [tables + 2] counters, in several copies each
};

}  // namespace dslide
