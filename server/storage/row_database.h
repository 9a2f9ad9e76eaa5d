// Sorted keys and values on disk: the servers' only interface to RocksDB.
//
// A database is filled by whole files, written aside and then taken in at once, so there is no log,
// and a file that was not taken in does not exist. Blocks and files have XXH3 checksums from the
// moment they are written.
// Owned by one thread; any number of threads may have cursors meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/checkpoint/manifest.h"

namespace rocksdb {
class Env;
}

namespace dslide {

class RowDatabase {
 public:
  // Creates a database in `directory`, which must not exist. With `base`, another database: its
  // content, by hard links where the file system allows. `env`: what touches the disk; null: the
  // system. Errors name the place, the reason and the mend, here and below.
  static Result<std::unique_ptr<RowDatabase>> Create(const std::string& directory,
                                                     const std::string& base,
                                                     rocksdb::Env* env = nullptr);
  // Changes nothing on disk; several processes may read the same one.
  static Result<std::unique_ptr<RowDatabase>> OpenForReading(const std::string& directory);
  ~RowDatabase();

  // Entries being written to a file. One that is not ingested is removed with its object.
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

  // Takes in finished files, all or none. They may overlap what is there and replace it, but not
  // each other.
  Status Ingest(std::span<const std::unique_ptr<SortedFile>> files);
  // Removes the keys of [begin, end).
  Status Erase(std::string_view begin, std::string_view end);
  // Rewrites all files, without what was replaced or removed. Ends early, without an error, when
  // `cancelled` becomes true.
  Status Compact(std::atomic<bool>* cancelled);
  // Links the present content into `directory`, which must not exist: a database of its own.
  Status LinkTo(const std::string& directory) const;

  // The files with entries.
  std::vector<ShardFile> Files() const;
  // Entries in all files, replaced and removing ones among them.
  uint64_t entries() const;

  // A reader's position in ascending order of keys. Keeps nothing that it has read.
  class Cursor {
   public:
    ~Cursor();
    Cursor(Cursor&&) noexcept;
    void Seek(std::string_view key);  // to the first entry at or behind it
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
  enum class Reading { kAhead, kPoints };  // large pieces of what follows, or a block a Seek()
  Cursor NewCursor(Reading reading = Reading::kAhead) const;

  const std::string& directory() const;

 private:
  struct Impl;
  explicit RowDatabase(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
