// Rows on disk: one RocksDB database a server. The only interface to RocksDB.
//
//   key    = layer(1) slot(4) row(4)         big-endian, so a slot's rows are neighbours
//   value  = RowScalars weights moments      Layer::StoreRow
//            codes                           output rows of a hashed model: L x uint16
//
// Ids are spread by slot = id mod V, row = id div V, so the keys do not depend on the number of
// servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "server/stored_rows.h"

namespace dslide {

// Writes a new database. Put() may be called by several threads at once.
class CheckpointWriter {
 public:
  // Creates the directory; an unfinished one of the same name is replaced.
  static Result<std::unique_ptr<CheckpointWriter>> Create(const std::string& directory);
  ~CheckpointWriter();

  // Buffers rows and writes them in batches; the first error is kept and returned by Finish().
  class Batch {
   public:
    explicit Batch(CheckpointWriter* writer);
    ~Batch();
    void Put(const StoredRowKey& key, std::span<const uint8_t> value);
    void Flush();

   private:
    struct Impl;
    CheckpointWriter* writer_;
    std::unique_ptr<Impl> impl_;
  };

  struct Totals {
    uint64_t rows = 0;
    uint64_t bytes = 0;
    uint64_t checksum = 0;
  };
  // Flushes, syncs and closes. No Batch may be alive.
  Result<Totals> Finish();

 private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads one database. Several processes may read the same one.
class CheckpointReader {
 public:
  static Result<std::unique_ptr<CheckpointReader>> Open(const std::string& directory);
  ~CheckpointReader();

  // Calls `row` for each stored row of a slot, ascending. Returns how many there were.
  Result<uint64_t> ForEachRow(
      LayerKind layer, SlotId slot,
      const std::function<Status(uint32_t row, std::span<const uint8_t> value)>& row) const;

 private:
  struct Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
