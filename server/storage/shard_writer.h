// Writes one server's shards of checkpoints, one after the other, from a database that stays.
//
//   Begin, Write ..., TakeRecord once an executor, End    a checkpoint
//   Begin, ..., GiveUp                                    none
//
// After the first failure of a checkpoint its rows are dropped, and End() says what went wrong.
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
  // Whether all executors' records are there.
  bool complete() const { return save_ && records_.size() == save_->executors; }
  CheckpointDone End();
  CheckpointDone GiveUp(const std::string& error, bool retry);

  // Rewrites the database when more of it is old than in use.
  void CompactIfWorthIt();

 private:
  // A file in the making; its rows are one executor's, of one layer.
  struct OpenFile {
    LayerKind layer = LayerKind::kInput;
    std::unique_ptr<RowDatabase::SortedFile> file;
  };

  Status OpenDatabase();
  Status RemoveOthers();
  Status WriteRows(OpenFile* open, const RowChunk& chunk);
  Status CloseFile(OpenFile* open);
  Status WriteRecords();
  Status Store();
  Status ListFiles(CheckpointDone* done);
  void Discard();
  CheckpointDone Close(CheckpointDone done);
  std::string ShardPath() const;

  CheckpointStore::Place place_;
  CheckpointStore::Base base_;  // what the database begins from: the last shard written, if any
  std::atomic<bool>* stopping_;
  std::unique_ptr<RowDatabase> database_;
  std::string store_;          // its directory
  std::vector<SlotId> slots_;  // of which it may have rows, ascending
  uint64_t rows_ = 0;          // of the server
  std::optional<CheckpointStore::Save> save_;
  std::optional<Error> error_;                                   // of the present save
  std::vector<OpenFile> open_;                                   // [executors]
  std::vector<std::unique_ptr<RowDatabase::SortedFile>> files_;  // finished
  std::map<uint32_t, std::string> records_;                      // by executor
  std::set<std::string> known_;  // data files that an earlier checkpoint has
};

}  // namespace dslide
