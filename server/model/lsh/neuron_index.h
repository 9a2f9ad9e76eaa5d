// The index of an output layer's neurons (model.active = lsh): hash tables that follow the rows,
// their replacement by tables of other functions, and their state in checkpoints and in slots that
// move.
//
// A checkpoint stores of each row, behind Layer::StoreRow:
//
//   codes     [L] x uint16   its current codes
//   and unless the row is settled:
//   changed   uint16         1: its weights are newer than its codes
//   counted   uint16         its code when the table being built counted it, kNoCode: not yet
//   built     [L] x uint16   its codes as of each table's last build
//
// A row is settled if its codes are up to date and the tables are built with them. Little-endian.
// Owned by one executor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/error.h"
#include "common/config/config.h"
#include "server/model/lsh/live_tables.h"
#include "server/rows/layer.h"

namespace dslide {

class NeuronIndex {
 public:
  // Empty: no row has a code yet. `layer` and `kernels` must outlive the index.
  NeuronIndex(const Config& config, Layer* layer, Purpose purpose, const Kernels& kernels);
  ~NeuronIndex();

  // The tables in use, and their hash functions; whether the model can use others.
  LiveTables& tables() { return *tables_; }
  const LiveTables& tables() const { return *tables_; }
  HashChoice functions() const { return choice_; }
  bool Allows(const HashChoice& choice) const;

  // The weights of a row have changed.
  void Touch(uint32_t row) {
    tables_->Touch(row);
    if (next_) next_->Touch(row);
  }
  // Call when the slots of the layer's map changed.
  void FollowMap();
  // A batch's share of the upkeep.
  void Advance();

  // Begins to build tables for newer functions; the present tables stay in use and up to date.
  // Each Advance() adds a batch's share to the new tables and costs twice as much meanwhile. For
  // the functions in use: ends a rebuild. Does nothing for functions of an earlier round than the
  // newest. REQUIRES Allows(choice).
  void BeginRebuild(const HashChoice& choice);
  // Replaces the old tables by new ones that contain every row, if there are such. All rows then
  // have new codes and count as changed. REQUIRES that no snapshot is in progress.
  void FinishRebuild();

  // A row's state for another executor, StateBytes() long: its codes and whether its weights are
  // newer. IsState() REQUIRES a state of an index with the same identity; TakeState() rehashes the
  // row, of a reserved slot, unless the state is the `same`.
  size_t StateBytes() const { return (size_t{tables_->tables().size()} + 1) * sizeof(BucketCode); }
  void AppendState(uint32_t row, std::vector<uint8_t>* out) const;
  bool IsState(std::span<const uint8_t> state) const;
  void TakeState(uint32_t row, std::span<const uint8_t> state, bool same);
  // Completes the state at the end of *out for a checkpoint with the codes that the tables were
  // built from at the mark. Returns whether the row is settled.
  bool CompleteState(const BuiltCodes& mark, uint32_t row, std::vector<uint8_t>* out) const;

  static size_t StoredBytes(const HashConfig& hash, bool settled) {
    return (settled ? hash.tables : 2 * size_t{hash.tables} + 2) * sizeof(BucketCode);
  }

  // The part of an executor's record about its index, and the record's slots.
  struct Stored {
    std::span<const SlotId> slots;
    HashChoice functions;  // k = 0: those of the configuration
    std::optional<HashPosition> position;
  };
  // From a checkpoint: LoadState() each row, then FinishLoad() with the records of all executors
  // that wrote them. Rows whose codes are by other functions are hashed. With `own`,
  // one of the records, the upkeep continues from its position; otherwise it begins again.
  // LoadState() returns false if the bytes are not valid.
  bool LoadState(uint32_t row, std::span<const uint8_t> state);
  Status FinishLoad(std::span<const Stored> records, const Stored* own);
  // Ends the loading. Returns the rows whose state is not the loaded one: the next checkpoint must
  // store them.
  std::vector<uint32_t> EndLoad();

  uint64_t MemoryBytes() const;

 private:
  struct Loaded;

  std::unique_ptr<LiveTables> MakeTables(const HashChoice& choice) const;
  void Install(std::unique_ptr<LiveTables> tables, const HashChoice& choice);
  std::optional<uint32_t> Restore(const HashPosition* position,
                                  const std::vector<HashChoice>& of_slot);
  std::optional<HashChoice> Choose(std::span<const Stored> records, const Stored* own,
                                   std::vector<HashChoice>* of_slot) const;

  const HashConfig hash_;
  const uint64_t seed_;
  const Purpose purpose_;
  Layer& layer_;
  const Kernels& kernels_;
  std::unique_ptr<LiveTables> tables_;  // never null
  HashChoice choice_;                   // of tables_
  std::unique_ptr<LiveTables> next_;    // being built to replace tables_, or null
  HashChoice next_choice_;
  uint32_t next_batches_ = 0;       // that next_ has followed so far
  std::unique_ptr<Loaded> loaded_;  // while rows are loaded, and until EndLoad()
};

// The error of an executor's record that says of an index what this model cannot have.
Error RecordDoesNotFit();

}  // namespace dslide
