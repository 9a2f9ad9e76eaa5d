// Writes one server's shards, checkpoint after checkpoint, from one live database.
//
//   Begin, Write ..., TakeRecord once per executor, End    a checkpoint
//   Begin, ..., GiveUp                                     no checkpoint
//
// After the first failure the checkpoint's rows are dropped, and End() returns the error. A worn
// database is compacted by a thread of its own, beside the next checkpoints.
// Owned by the thread of a CheckpointStore.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/storage/checkpoint_store.h"
#include "server/storage/row_database.h"

namespace dslide {

class ShardWriter {
 public:
  ShardWriter(CheckpointStore::Place place, CheckpointStore::Base base);
  ~ShardWriter();  // removes the database

  void Begin(CheckpointStore::Save save);
  void Write(uint32_t executor, const RowChunk& chunk);
  void TakeRecord(uint32_t executor, std::string record);
  // Whether all executors' records have arrived.
  bool complete() const { return save_ && records_.size() == save_->executors; }
  CheckpointDone End();
  CheckpointDone GiveUp(const std::string& error, bool retry);

  // Of the last save that has ended.
  const CheckpointStore::DiskSpeed& disk() const { return disk_; }

  // The last save has failed, and the next one needs all rows. False: it begins from the last shard
  // that was written.
  bool lost() const { return lost_; }

  // Begins to rewrite the database if it is worn.
  void CompactIfWorthIt();

 private:
  // A file being written, with rows of one executor and one layer in ascending order.
  struct OpenFile {
    StoredRowKey last = {};
    std::unique_ptr<RowDatabase::SortedFile> file;
  };
  // Files of one save whose keys do not overlap; or, of early chunks, do.
  struct FileSet {
    std::vector<OpenFile> open;  // [executors]
    std::vector<std::unique_ptr<RowDatabase::SortedFile>> finished;

    uint64_t bytes() const;
  };

  bool HasRoomToCompact() const;
  void EndCompaction();
  void DropDatabase();
  Status OpenDatabase();
  Status RemoveOthers();
  Status CheckRoom() const;
  Status WriteRows(uint32_t executor, const RowChunk& chunk);
  static Status CloseFile(uint32_t executor, FileSet* files);
  Status Ingest(FileSet* files);
  Status WriteRecords();
  Status Store();
  Status ListFiles(CheckpointDone* done);
  Status Sync(const std::string& path);
  void MeasureDisk(uint64_t written_bytes);
  void DropFiles();
  void Discard();
  CheckpointDone Close(CheckpointDone done);
  std::string ShardPath() const;

  CheckpointStore::Place place_;
  CheckpointStore::Base base_;  // initial content of the database: the last shard written, if any
  std::unique_ptr<RowDatabase> database_;
  std::atomic<bool> cancelled_ = false;  // the compaction is
  std::future<Status> compaction_;       // of database_; invalid: there is none
  std::string store_;                    // the database's directory
  std::vector<SlotId> slots_;            // that the database may have rows of, ascending
  uint64_t rows_ = 0;                    // of the server
  uint64_t disk_bytes_ = 0;              // of the directory, before the save
  bool lost_ = false;
  bool told_ = false;  // that there is no room to compact
  std::optional<CheckpointStore::Save> save_;
  std::optional<Error> error_;  // of the present save
  FileSet files_;
  FileSet early_files_;
  std::map<uint32_t, std::string> records_;  // by executor
  uint64_t written_bytes_ = 0;               // of this save, in data files
  int64_t writing_us_ = 0;                   // of this save: the thread wrote for so long
  CheckpointStore::DiskSpeed disk_;
};

}  // namespace dslide
