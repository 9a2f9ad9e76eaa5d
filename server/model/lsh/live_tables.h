// The hash tables over a layer's rows, kept up with the rows' weights while training goes on.
//
// Nothing stops the world: after each batch a slice of the rows is looked through, those that
// changed since they were hashed last get new codes, and the building of tables advances by an
// equal share. A bucket follows a change after at most lag_batches(): a round until the row is
// hashed, another until each table has counted it, and the table's own building. All owners of a
// model together look through kSliceRows a batch, whatever N is; each looks through its share, so
// a round is as long wherever a row lives, and a slow server with few rows has little to do.
//
// The tables' rows follow the layer's slots (FollowMap). A row that leaves is in a bucket until its
// table is built anew, so what the buckets name is for the reader to check: SlotMap::Global().
// Owned by one executor thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "server/model/lsh/hash_family.h"
#include "server/model/lsh/hash_tables.h"
#include "server/rows/layer.h"

namespace dslide {

// Where the tables' upkeep stands.
struct HashPosition {
  uint32_t slice = 0;  // of the rows, the next one to be looked through
  BuildPosition build;
  bool operator==(const HashPosition&) const = default;
};

// Which functions hash: K of them a table, drawn by the run's seed and the number of times that
// functions were drawn anew.
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
  const HashFunctions& functions() const { return *functions_; }
  // Batches until every row has been looked through.
  uint32_t round_batches() const { return round_; }
  // The most until a bucket follows a change.
  uint32_t lag_batches() const {
    return 2 * round_ + (round_ + tables_.size() - 1) / tables_.size();
  }
  // Of building tables, a batch (HashTables::Advance).
  uint64_t build_steps() const { return (tables_.StepsOfAllTables() + round_ - 1) / round_; }
  uint64_t MemoryBytes() const { return tables_.MemoryBytes() + changed_.size(); }
  // What a row adds to that.
  uint64_t RowBytes() const { return tables_.RowBytes() + 1; }

  // Of what the codes depend on beside the weights: equal ones give equal codes to equal rows.
  uint64_t identity() const { return identity_; }

  // The slots of the layer's map are others. Those that left keep their codes, for whoever takes
  // the rows over, until they are released; those that came without codes are hashed as if they had
  // changed. Copies the tables if there are more rows now.
  void FollowMap();

  // A row of a reserved slot came from another executor, with its codes by functions of the same
  // identity ([tables]), and whether its weights are newer; without codes it is hashed once its
  // slot is attached. Buckets follow as they follow a change. REQUIRES FollowMap() since the slot
  // was reserved, and valid codes.
  void TakeRow(uint32_t row, std::span<const BucketCode> codes, bool changed);

  // Rehashes what changed and builds all tables, at once. Two LiveTables over equal weights behave
  // alike from then on.
  void CatchUp();

  // Whether the row's weights changed since they were hashed.
  bool IsChanged(uint32_t row) const { return changed_[row] != 0; }
  HashPosition Position() const { return {slice_, tables_.position()}; }

  // Puts a stored row back: its codes ([tables]), and whether its weights are newer. Restore()
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

  // Has `hook` called with each row that is about to be hashed again; null: no longer.
  void BeforeRehash(std::function<void(uint32_t row)> hook) { before_rehash_ = std::move(hook); }

  // The row's weights changed.
  void Touch(uint32_t row) { changed_[row] = 1; }
  // All weights, or what they are hashed by.
  void TouchAll();

  // One batch's share of the work.
  void Advance();

 private:
  struct Region {
    SlotId slot = SlotMap::kNoSlot;  // that it is reserved for
    bool attached = false;
    bool hidden = false;  // from the tables: it left
  };
  static constexpr uint32_t kSliceRows = 4096;  // of the whole model
  static constexpr uint32_t kMinRound = 8;

  void Follow(uint32_t region);
  void RehashChanged(uint32_t begin, uint32_t end);

  const Layer& layer_;
  std::unique_ptr<HashFunctions> functions_;
  uint64_t identity_;
  HashTables tables_;
  const uint32_t round_;          // batches
  uint32_t slice_ = 0;            // of round_
  std::vector<uint8_t> changed_;  // [rows] since they were hashed; all of them at first
  std::vector<Region> regions_;   // of the layer's map, as last followed
  std::function<void(uint32_t row)> before_rehash_;
  // Scratch.
  std::vector<uint32_t> rows_;
  std::vector<float> weights_;  // [rows x H]
  std::vector<BucketCode> codes_;
};

}  // namespace dslide
