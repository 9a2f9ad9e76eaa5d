// Writes one server's shards, checkpoint after checkpoint, from one live database.
//
//   Begin, Write ..., TakeRecord once per executor, End    a checkpoint
//   Begin, ..., GiveUp                                     no checkpoint
//
// After the first failure the checkpoint's rows are dropped, and End() returns the error.
// Owned by the thread of a CheckpointStore.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/storage/checkpoint_store.h"
#include "server/storage/row_database.h"

namespace dslide {

class ShardWriter {
 public:
  // Long work ends early once `*stopping` is true.
  ShardWriter(CheckpointStore::Place place, CheckpointStore::Base base,
              std::atomic<bool>* stopping);
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

  // Rewrites the database when more of it is old than in use.
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
  std::atomic<bool>* stopping_;
  std::unique_ptr<RowDatabase> database_;
  std::string store_;          // the database's directory
  std::vector<SlotId> slots_;  // that the database may have rows of, ascending
  uint64_t rows_ = 0;          // of the server
  uint64_t disk_bytes_ = 0;    // of the directory, before the save
  std::optional<CheckpointStore::Save> save_;
  std::optional<Error> error_;  // of the present save
  FileSet files_;
  FileSet early_files_;
  std::map<uint32_t, std::string> records_;  // by executor
  std::set<std::string> known_;              // data files of earlier checkpoints
  int64_t writing_us_ = 0;                   // of this save: the thread wrote for so long
  CheckpointStore::DiskSpeed disk_;
};

}  // namespace dslide
