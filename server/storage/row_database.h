// Sorted keys and values on disk: the servers' only interface to RocksDB.
//
// A database grows by whole files, which are written aside and then ingested at once. So there is
// no log, and a file that was not ingested is not part of the database. Blocks and files have XXH3
// checksums from the moment they are written.
// Owned by one thread; meanwhile any number of threads may have cursors, and one may compact.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/checkpoint/shard_file.h"

namespace rocksdb {
class Env;
}

namespace dslide {

class RowDatabase {
 public:
  // Where a compaction begins a new file, and whoever writes many rows should.
  static constexpr uint64_t kFileBytes = uint64_t{64} << 20;

  // Creates a database in `directory`, which must not exist. It starts with the content of `base`,
  // the directory of another database (empty: none), by hard links where the file system allows.
  // `env` does the disk access; null: the system's. Here and below, errors name the place, the
  // reason and the remedy; kTryLater: there is no space.
  static Result<std::unique_ptr<RowDatabase>> Create(const std::string& directory,
                                                     const std::string& base,
                                                     rocksdb::Env* env = nullptr);
  // Changes nothing on disk; several processes may read the same database.
  static Result<std::unique_ptr<RowDatabase>> OpenForReading(const std::string& directory);
  ~RowDatabase();

  // A file being written. A file that is not ingested is removed with its object.
  class SortedFile {
   public:
    ~SortedFile();
    // REQUIRES ascending keys.
    Status Put(std::string_view key, std::span<const uint8_t> value);
    Status Delete(std::string_view key);
    uint64_t bytes() const;  // written so far
    Status Finish();         // syncs

   private:
    friend class RowDatabase;
    struct Impl;
    explicit SortedFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  Result<std::unique_ptr<SortedFile>> NewFile();

  // Adds finished files, all or none. Their entries may replace present ones. No two files may have
  // the same key; files whose ranges of keys overlap cost every reader more.
  Status Ingest(std::span<const std::unique_ptr<SortedFile>> files);
  // Removes the keys of these ranges, each [first, second).
  Status Erase(std::span<const std::pair<std::string, std::string>> ranges);
  // Rewrites all files, without replaced and removed entries. Ends early, without an error, when
  // `cancelled` becomes true.
  Status Compact(std::atomic<bool>* cancelled);
  // Links the present content into `directory`, which must not exist, as a database of its own.
  Status LinkTo(const std::string& directory) const;

  // The files with entries.
  std::vector<ShardFile> Files() const;
  // Whether most of the entries are old where `rows` are in use, or there are so many files that
  // finding the first entry of each in all of them reads more than the files have.
  bool IsWorn(uint64_t rows) const;
  // What a compaction then writes, about.
  uint64_t BytesOfRows(uint64_t rows) const;

  // A reader's position in ascending order of keys. Caches nothing.
  class Cursor {
   public:
    ~Cursor();
    Cursor(Cursor&&) noexcept;
    void Seek(std::string_view key);  // to the first entry at or after `key`
    void Next();
    bool Valid() const;  // false: at the end, or status() has an error
    std::string_view key() const;
    std::span<const uint8_t> value() const;
    Status status() const;

   private:
    friend class RowDatabase;
    struct Impl;
    explicit Cursor(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
  };
  enum class Reading { kAhead, kPoints };  // read ahead in large pieces, or one block per Seek()
  Cursor NewCursor(Reading reading = Reading::kAhead) const;

  const std::string& directory() const;

 private:
  struct Impl;
  struct Sums {
    uint64_t files = 0;
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  Sums SumsOfFiles() const;
  explicit RowDatabase(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
