#include "scheduler/ledger/ledger.h"

#include <fmt/core.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/process.h"
#include "common/checkpoint/no_rocksdb_log.h"
#include "scheduler/ledger/ledger_tail.h"
#include "scheduler/ledger/ledger_value.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyBytes = 8;
// Attempts to read a ledger as of one moment while a scheduler writes it. The set of its files
// changes once in many thousand entries.
constexpr int kReadAttempts = 10;

std::array<char, kKeyBytes> EncodeKey(uint64_t number) {
  std::array<char, kKeyBytes> key;
  for (size_t i = 0; i < kKeyBytes; ++i) key[i] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options;
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;  // Debian's build has only a slow crc32c
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kLZ4Compression;
  options.write_buffer_size = size_t{8} << 20;
  options.max_background_jobs = 2;
  options.max_file_opening_threads = 1;  // a ledger has few tables; each thread costs 0.1 ms
  options.info_log = std::make_shared<NoRocksDbLog>();
  // A power failure leaves a log that ends within a record. Damage elsewhere is an error: dropping
  // the entries behind it would break the promise that they stay.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  return options;
}

Error Damaged(const std::string& directory, const std::string& reason) {
  return BadInput(
      fmt::format("{}: the ledger is damaged: {}; put a copy in its place, or move it away and go "
                  "on from the newest checkpoint with --resume",
                  directory, reason));
}

Error DatabaseError(const std::string& directory, const char* what, const rocksdb::Status& status) {
  const std::string reason = status.ToString();
  if (status.IsCorruption()) return Damaged(directory, reason);
  if (status.IsNoSpace() || reason.find("Disk quota exceeded") != std::string::npos) {
    return TryLater(fmt::format("{}: {} the ledger: no space left on its disk; free space there",
                                directory, what));
  }
  const bool locked = reason.find("While lock file") != std::string::npos ||
                      reason.find("lock hold by current process") != std::string::npos;
  if (status.IsIOError() && locked) {
    return TryLater(
        fmt::format("{}: another scheduler works on this run; stop that one first", directory));
  }
  return Failed(fmt::format("{}: {} the ledger: {}", directory, what, reason));
}

// A directory's files that hold entries or list such files.
std::set<std::string> DataFiles(const std::string& directory) {
  std::set<std::string> files;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(directory, error)) {
    const fs::path name = file.path().filename();
    const bool data = name.extension() == ".sst" || name.extension() == ".log";
    if (data || name == "CURRENT" || name.string().starts_with("MANIFEST")) files.insert(name);
  }
  return files;
}

// Detects missing files where RocksDB would take the rest for a new database.
Status CheckFiles(const std::string& directory) {
  const std::set<std::string> files = DataFiles(directory);
  const auto any = [&](std::string_view extension) {
    return std::any_of(files.begin(), files.end(),
                       [&](const std::string& name) { return name.ends_with(extension); });
  };
  if (!files.contains("CURRENT") && (any(".sst") || any(".log"))) {
    return Damaged(directory, "the file CURRENT is missing");
  }
  return {};
}

// Detects a missing write-ahead log. There is always a log with the number that the database keeps,
// or a higher one; RocksDB would take a missing log for an empty one.
Status CheckLog(const std::string& directory, rocksdb::DB* db) {
  uint64_t needed = 0;
  db->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &needed);
  const std::string first = fmt::format("{:06}.log", needed);
  for (const std::string& name : DataFiles(directory)) {
    if (name.ends_with(".log") && std::pair(name.size(), name) >= std::pair(first.size(), first)) {
      return {};
    }
  }
  if (needed == 0) return {};  // the process that created the ledger died before the first log
  return Damaged(directory, fmt::format("the write-ahead log {} is missing", first));
}

using EntrySink = std::function<Status(uint64_t number, LedgerEntry entry)>;

// nullopt: no entry has such a key.
std::optional<uint64_t> DecodeKey(const rocksdb::Slice& key) {
  if (key.size() != kKeyBytes) return std::nullopt;
  uint64_t number = 0;
  for (size_t i = 0; i < kKeyBytes; ++i) number = number << 8 | static_cast<uint8_t>(key[i]);
  return number;
}

// Decodes the value at `at` as entry `number`.
Result<LedgerEntry> EntryAt(const std::string& directory, const rocksdb::Iterator& at,
                            uint64_t number) {
  const auto key = EncodeKey(number);
  if (at.key() != rocksdb::Slice(key.data(), key.size())) {
    return Damaged(directory, fmt::format("entry {} is missing", number));
  }
  Result<LedgerEntry> entry = DecodeLedgerEntry(number, {at.value().data(), at.value().size()});
  if (!entry.ok()) {
    return Damaged(directory, fmt::format("entry {}: {}", number, entry.error().message));
  }
  if (number == 0 && !std::holds_alternative<LedgerOpened>(*entry)) {
    return Damaged(directory, "entry 0 does not open a run");
  }
  return entry;
}

// Calls `sink` with every entry; returns their number.
Result<uint64_t> Scan(const std::string& directory, rocksdb::DB* db, const EntrySink& sink) {
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions()));
  uint64_t number = 0;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    Result<LedgerEntry> entry = EntryAt(directory, *at, number);
    DSLIDE_RETURN_IF_ERROR(entry);
    DSLIDE_RETURN_IF_ERROR(sink(number, *std::move(entry)));
    number++;
  }
  if (!at->status().ok()) return DatabaseError(directory, "cannot read", at->status());
  return number;
}

// Opens the database as of one moment. A scheduler may move entries to other files between the
// reading of the list of files and the reading of the files; the names then differ afterwards.
Result<std::unique_ptr<rocksdb::DB>> OpenToRead(const std::string& directory) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    const std::set<std::string> before = DataFiles(directory);
    if (!before.contains("CURRENT")) break;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(DatabaseOptions(), directory, &db);
    std::unique_ptr<rocksdb::DB> opened(db);
    if (DataFiles(directory) != before) continue;
    if (!status.ok()) return DatabaseError(directory, "cannot open", status);
    DSLIDE_RETURN_IF_ERROR(CheckLog(directory, opened.get()));
    return opened;
  }
  DSLIDE_RETURN_IF_ERROR(CheckFiles(directory));
  if (DataFiles(directory).contains("CURRENT")) {
    return TryLater(fmt::format("{}: the ledger changes too quickly; try again", directory));
  }
  return BadInput(fmt::format("{}: there is no ledger; give the directory of a run", directory));
}

// `tail`: LogTail(), read before the database: a scheduler may append meanwhile.
Status CheckTail(const std::string& directory, const std::string& tail, uint64_t entries) {
  if (!HoldsEntryFrom(tail, entries)) return {};
  return Damaged(directory,
                 fmt::format("entry {} cannot be read from the write-ahead log", entries));
}

// Calls `sink` with all entries of a ledger as of one moment; returns their number.
Result<uint64_t> ReadAll(const std::string& directory, const EntrySink& sink) {
  const std::string tail = LogTail(directory);
  const auto db = OpenToRead(directory);
  DSLIDE_RETURN_IF_ERROR(db);
  const Result<uint64_t> entries = Scan(directory, db->get(), sink);
  DSLIDE_RETURN_IF_ERROR(entries);
  DSLIDE_RETURN_IF_ERROR(CheckTail(directory, tail, *entries));
  return entries;
}

// Opens or creates the database, and locks it.
Result<std::unique_ptr<rocksdb::DB>> OpenDatabase(const std::string& directory, rocksdb::Env* env) {
  rocksdb::Options options = DatabaseOptions();
  if (env != nullptr) options.env = env;
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, &db);
  std::unique_ptr<rocksdb::DB> opened(db);
  if (!status.ok()) return DatabaseError(directory, "cannot open", status);
  return opened;
}

bool HasEntries(rocksdb::DB* db, uint64_t entries) {
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions()));
  at->SeekToLast();
  const auto last = EncodeKey(entries - 1);
  return at->Valid() ? at->key() == rocksdb::Slice(last.data(), last.size())
                     : at->status().ok() && entries == 0;
}

Error HasChanged(const std::string& directory) {
  return TryLater(
      fmt::format("{}: the ledger changed while it was opened; is another scheduler "
                  "at work on this run?",
                  directory));
}

}  // namespace

struct Ledger::Impl {
  std::string directory;
  rocksdb::Env* env = nullptr;      // null: the machine's
  std::unique_ptr<rocksdb::DB> db;  // null after Reopen() found no room
  Status failed;                    // the first error of Append(); kTryLater: the last one
  double sync_us = 0;

  // A write to disk that began then has ended.
  void Synced(int64_t began_us) {
    const auto took_us = static_cast<double>(std::max<int64_t>(MonotonicMicros() - began_us, 1));
    sync_us = std::max(took_us, sync_us * 7 / 8);
  }
};

Ledger::Ledger(std::unique_ptr<Impl> impl, uint64_t entries)
    : impl_(std::move(impl)), entries_(entries) {}
Ledger::~Ledger() = default;

Result<std::unique_ptr<Ledger>> Ledger::Open(const std::string& directory, LedgerState* state,
                                             rocksdb::Env* env) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return Failed(fmt::format("{}: cannot create the ledger: {}", directory, error.message()));
  }
  DSLIDE_RETURN_IF_ERROR(CheckFiles(directory));
  *state = {};
  // Everything is read before RocksDB may write, because it would tidy damage away.
  if (DataFiles(directory).contains("CURRENT")) {
    DSLIDE_RETURN_IF_ERROR(ReadAll(directory, [&](uint64_t, const LedgerEntry& entry) {
      state->Apply(entry);
      return Status();
    }));
  }
  auto db = OpenDatabase(directory, env);
  DSLIDE_RETURN_IF_ERROR(db);
  if (!HasEntries(db->get(), state->entries)) return HasChanged(directory);
  auto impl = std::make_unique<Impl>(Impl{directory, env, std::move(*db), {}, 0});
  return std::unique_ptr<Ledger>(new Ledger(std::move(impl), state->entries));
}

Status Ledger::ForEach(const std::string& directory, const EntrySink& entry) {
  DSLIDE_RETURN_IF_ERROR(ReadAll(directory, entry));
  return {};
}

Result<std::vector<LedgerEntry>> Ledger::Read(const std::string& directory) {
  std::vector<LedgerEntry> entries;
  DSLIDE_RETURN_IF_ERROR(ForEach(directory, [&](uint64_t, LedgerEntry entry) {
    entries.push_back(std::move(entry));
    return Status();
  }));
  return entries;
}

Result<std::optional<LedgerEntry>> Ledger::Last(const std::string& directory) {
  const std::string tail = LogTail(directory);
  const auto db = OpenToRead(directory);
  DSLIDE_RETURN_IF_ERROR(db);
  const std::unique_ptr<rocksdb::Iterator> at((*db)->NewIterator(rocksdb::ReadOptions()));
  at->SeekToLast();
  if (!at->status().ok()) return DatabaseError(directory, "cannot read", at->status());
  if (!at->Valid()) {
    DSLIDE_RETURN_IF_ERROR(CheckTail(directory, tail, 0));
    return std::optional<LedgerEntry>();
  }
  const std::optional<uint64_t> number = DecodeKey(at->key());
  if (!number) return Damaged(directory, "its last key is of another length");
  Result<LedgerEntry> entry = EntryAt(directory, *at, *number);
  DSLIDE_RETURN_IF_ERROR(entry);
  DSLIDE_RETURN_IF_ERROR(CheckTail(directory, tail, *number + 1));
  return std::optional(*std::move(entry));
}

Status Ledger::Append(std::span<const LedgerEntry> entries) {
  // Also after a failure, of which the scheduler has to tell its members.
  if (entries.empty()) return {};
  if (!impl_->failed.ok()) {
    const uint64_t before = entries_;
    DSLIDE_RETURN_IF_ERROR(Reopen(entries.size()));
    if (entries_ > before) return {};
  }
  DSLIDE_CHECK(entries_ > 0 || std::holds_alternative<LedgerOpened>(entries[0]));
  rocksdb::WriteBatch batch;
  rocksdb::WriteOptions options;
  for (uint64_t n = entries_; const LedgerEntry& entry : entries) {
    const auto key = EncodeKey(n);
    batch.Put({key.data(), key.size()}, EncodeLedgerEntry(n, entry));
    if (!std::holds_alternative<LedgerCounted>(entry)) options.sync = true;
    ++n;
  }
  const int64_t began_us = MonotonicMicros();
  const rocksdb::Status status = impl_->db->Write(options, &batch);
  if (options.sync) impl_->Synced(began_us);
  if (!status.ok()) {
    return impl_->failed = DatabaseError(impl_->directory, "cannot write", status);
  }
  entries_ += entries.size();
  return {};
}

Status Ledger::Reopen(size_t appended) {
  Status& failed = impl_->failed;
  if (failed.error().kind != ErrorKind::kTryLater) return failed;
  impl_->db.reset();
  auto db = OpenDatabase(impl_->directory, impl_->env);
  if (!db.ok()) return failed = db.error();
  if (HasEntries(db->get(), entries_ + appended)) {
    entries_ += appended;
  } else if (!HasEntries(db->get(), entries_)) {
    return failed = Failed(HasChanged(impl_->directory).message);
  }
  impl_->db = *std::move(db);
  failed = {};
  return {};
}

Status Ledger::Sync() {
  if (!impl_->failed.ok()) DSLIDE_RETURN_IF_ERROR(Reopen(0));
  const int64_t began_us = MonotonicMicros();
  const rocksdb::Status status = impl_->db->SyncWAL();
  impl_->Synced(began_us);
  if (!status.ok()) impl_->failed = DatabaseError(impl_->directory, "cannot write", status);
  return impl_->failed;
}

uint32_t Ledger::sync_us() const { return static_cast<uint32_t>(impl_->sync_us); }

}  // namespace dslide
