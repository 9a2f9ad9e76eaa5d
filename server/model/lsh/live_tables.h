// The hash tables over a layer's rows, kept up to date with the rows' weights while training goes
// on.
//
// Nothing stops the world: after each batch a slice of the rows is scanned, rows that changed since
// their last hashing get new codes, and the building of tables advances by an equal share. A bucket
// follows a change after at most lag_batches(): a round until the row is hashed, another until each
// table has counted it, and the table's own building. All executors of a model together scan
// kSliceRows rows per batch, whatever N is. Each scans its share, so a round has the same length
// everywhere, and a slow server with few rows has little to do.
//
// The tables' rows follow the layer's slots (FollowMap). A row that left stays in a bucket until
// the table's next build, so readers check bucket entries with SlotMap::Global().
// Owned by one executor thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "server/model/lsh/dwta.h"
#include "server/model/lsh/hash_tables.h"
#include "server/rows/layer.h"

namespace dslide {

// Progress of the tables' upkeep.
struct HashPosition {
  uint32_t slice = 0;  // of the rows, the next one to be scanned
  BuildPosition build;
  bool operator==(const HashPosition&) const = default;
};

// The choice of hash functions: K per table, drawn from the run's seed and `round`, the number of
// redraws so far.
struct HashChoice {
  uint32_t round = 0;
  uint32_t k = 0;
  bool operator==(const HashChoice&) const = default;
};

class LiveTables {
 public:
  // `layer` and `kernels` must outlive the tables.
  LiveTables(const HashConfig& config, uint64_t seed, const Layer& layer, const Kernels& kernels);

  const HashTables& tables() const { return tables_; }
  const Dwta& functions() const { return functions_; }
  // Batches until every row has been scanned.
  uint32_t round_batches() const { return round_; }
  // The most batches until a bucket follows a change.
  uint32_t lag_batches() const {
    return 2 * round_ + (round_ + tables_.size() - 1) / tables_.size();
  }
  // Build steps per batch (HashTables::Advance).
  uint64_t build_steps() const { return (tables_.StepsOfAllTables() + round_ - 1) / round_; }
  uint64_t MemoryBytes() const { return tables_.MemoryBytes() + changed_.size(); }
  // Memory that one row adds.
  uint64_t RowBytes() const { return tables_.RowBytes() + 1; }

  // Identifies everything that codes depend on beside the weights: with equal identities, equal
  // rows have equal codes.
  uint64_t identity() const { return identity_; }

  // Call when the slots of the layer's map changed. Rows that left keep their codes for their next
  // owner until the slot is released; rows that came without codes are hashed as if they had
  // changed. Grows the tables if the layer has more rows now.
  void FollowMap();

  // Takes a row of a reserved slot from another executor: its codes by functions of the same
  // identity ([tables]), and whether its weights are newer. A row without codes is hashed once its
  // slot is attached. Buckets follow as after a change. REQUIRES FollowMap() since the slot was
  // reserved, and valid codes.
  void TakeRow(uint32_t row, std::span<const BucketCode> codes, bool changed);

  // Rehashes all changed rows and builds all tables, at once. Two LiveTables over equal weights
  // behave alike from then on.
  void CatchUp();

  // Whether the row's weights changed since they were hashed.
  bool IsChanged(uint32_t row) const { return changed_[row] != 0; }
  HashPosition Position() const { return {slice_, tables_.position()}; }

  // Restores a stored row: its codes ([tables]), and whether its weights are newer. Restore()
  // follows after the last row; it REQUIRES that Fits(slice, built.position).
  void RestoreRow(uint32_t row, std::span<const BucketCode> codes, bool changed) {
    tables_.SetCodes(row, codes);
    changed_[row] = changed;
  }
  void Restore(uint32_t slice, BuiltCodes built) {
    slice_ = slice;
    tables_.Restore(std::move(built));
  }
  bool Fits(const HashPosition& position) const;

  // `hook` is called with each row that is about to be hashed again; null: none.
  void BeforeRehash(std::function<void(uint32_t row)> hook) { before_rehash_ = std::move(hook); }

  // Call when the row's weights changed.
  void Touch(uint32_t row) { changed_[row] = 1; }
  // Call when all weights or the hash functions changed.
  void TouchAll();

  // One batch's share of the work.
  void Advance();

 private:
  struct Region {
    SlotId slot = SlotMap::kNoSlot;  // that has the region
    bool attached = false;
    bool hidden = false;  // from the tables: the slot left
  };
  static constexpr uint32_t kSliceRows = 4096;  // of the whole model
  static constexpr uint32_t kMinRound = 8;

  void Follow(uint32_t region);
  void RehashChanged(uint32_t begin, uint32_t end);

  const Layer& layer_;
  Dwta functions_;
  uint64_t identity_;
  HashTables tables_;
  const uint32_t round_;          // batches
  uint32_t slice_ = 0;            // below round_
  std::vector<uint8_t> changed_;  // [rows] since the row was hashed; all rows at first
  std::vector<Region> regions_;   // of the layer's map at the last FollowMap()
  std::function<void(uint32_t row)> before_rehash_;
  // Scratch.
  std::vector<uint32_t> rows_;
  std::vector<float> weights_;  // [rows x H]
  std::vector<BucketCode> codes_;
};

}  // namespace dslide
