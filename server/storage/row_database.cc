#include "server/storage/row_database.h"

#include <fmt/core.h>
#include <rocksdb/db.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/table_properties.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>

#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/no_rocksdb_log.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr uint64_t kFewFiles = 64;
constexpr size_t kReadAheadBytes = size_t{2} << 20;
constexpr char kChecksumName[] = "XXH3-64";

class Xxh3Generator final : public rocksdb::FileChecksumGenerator {
 public:
  void Update(const char* data, size_t n) override { sum_.Add(data, n); }
  void Finalize() override {
    const uint64_t value = sum_.Value();
    result_.assign(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  std::string GetChecksum() const override { return result_; }
  const char* Name() const override { return kChecksumName; }

 private:
  StreamChecksum sum_;
  std::string result_;
};

class Xxh3Factory final : public rocksdb::FileChecksumGenFactory {
 public:
  std::unique_ptr<rocksdb::FileChecksumGenerator> CreateFileChecksumGenerator(
      const rocksdb::FileChecksumGenContext&) override {
    return std::make_unique<Xxh3Generator>();
  }
  const char* Name() const override { return kChecksumName; }
};

rocksdb::Options DatabaseOptions(rocksdb::Env* env) {
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;  // Debian's build has only a slow crc32c
  table.block_size = kBlockBytes;
  table.no_block_cache = true;  // everything is read once, in order
  rocksdb::Options options;
  if (env != nullptr) options.env = env;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kLZ4Compression;  // harmless on noise, helps rows never touched
  options.file_checksum_gen_factory = std::make_shared<Xxh3Factory>();
  options.info_log = std::make_shared<NoRocksDbLog>();
  options.disable_auto_compactions = true;
  options.level0_slowdown_writes_trigger = INT_MAX;
  options.level0_stop_writes_trigger = INT_MAX;
  options.soft_pending_compaction_bytes_limit = 0;
  options.hard_pending_compaction_bytes_limit = 0;
  options.compaction_readahead_size = kReadAheadBytes;
  options.target_file_size_base = RowDatabase::kFileBytes;
  options.write_buffer_size = size_t{4} << 20;  // hardly anything goes through it
  options.max_background_jobs = 2;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  return options;
}

// The file that an error is about, if its text names one.
std::string FileIn(const std::string& text) {
  const size_t end = text.find(".sst");
  if (end == std::string::npos) return "";
  const size_t begin = text.rfind(' ', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end + 4 - (begin == std::string::npos ? 0 : begin + 1));
}

Error DiskError(const std::string& place, const char* what, const rocksdb::Status& status,
                const char* remedy) {
  std::string text = status.ToString();
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string file = FileIn(text);
  return Failed(fmt::format("{}: {}: {}; {}", file.empty() ? place : file, what, text, remedy));
}

Error WriteError(const std::string& place, const rocksdb::Status& status) {
  if (status.IsCorruption()) {
    return DiskError(place, "damaged", status,
                     "the disk may be failing; the last complete checkpoint stays");
  }
  if (status.IsNoSpace()) {
    return TryLater(DiskError(place, "cannot write", status,
                              "free space there or set checkpoint.directory to another disk; the "
                              "last complete checkpoint stays")
                        .message);
  }
  return DiskError(place, "cannot write", status,
                   "check that disk or set checkpoint.directory to another one; the last complete "
                   "checkpoint stays");
}

Error ReadError(const std::string& place, const rocksdb::Status& status) {
  const bool damaged = status.IsCorruption();
  return DiskError(place, damaged ? "damaged" : "cannot read", status,
                   "copy it again from where it was written, or use an older checkpoint");
}

// Hard-links the data files of a database, which never change, and copies the others.
Status LinkFiles(const std::string& from, const std::string& to) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const fs::path target = fs::path(to) / entry.path().filename();
    error.clear();
    if (entry.path().extension() == ".sst") fs::create_hard_link(entry.path(), target, error);
    if (error || entry.path().extension() != ".sst") {
      error.clear();
      fs::copy_file(entry.path(), target, error);
    }
    if (error) break;
  }
  if (error) {
    return Failed(
        fmt::format("{}: cannot link the files of {} here: {}; check that both can be "
                    "read and written",
                    to, from, error.message()));
  }
  return {};
}

rocksdb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }
rocksdb::Slice SliceOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

struct RowDatabase::Impl {
  std::string directory;
  rocksdb::Options options;
  std::unique_ptr<rocksdb::DB> db;
  uint64_t files_begun = 0;
};

struct RowDatabase::SortedFile::Impl {
  Impl(const rocksdb::Options& options, std::string p)
      : path(std::move(p)), env(options.env), writer(rocksdb::EnvOptions(), options) {}

  std::string path;
  rocksdb::Env* env;
  rocksdb::SstFileWriter writer;
  rocksdb::ExternalSstFileInfo info;
};

RowDatabase::RowDatabase(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowDatabase::~RowDatabase() = default;
const std::string& RowDatabase::directory() const { return impl_->directory; }

Result<std::unique_ptr<RowDatabase>> RowDatabase::Create(const std::string& directory,
                                                         const std::string& base,
                                                         rocksdb::Env* env) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return Failed(
        fmt::format("{}: cannot create: {}; make that place writable or set "
                    "checkpoint.directory to another one",
                    directory, error.message()));
  }
  if (!base.empty()) DSLIDE_RETURN_IF_ERROR(LinkFiles(base, directory));
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->options = DatabaseOptions(env);
  impl->options.create_if_missing = base.empty();
  impl->options.error_if_exists = base.empty();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(impl->options, directory, &db);
  if (!status.ok()) return WriteError(directory, status);
  impl->db.reset(db);
  return std::unique_ptr<RowDatabase>(new RowDatabase(std::move(impl)));
}

Result<std::unique_ptr<RowDatabase>> RowDatabase::OpenForReading(const std::string& directory) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->options = DatabaseOptions(nullptr);
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(impl->options, directory, &db);
  if (!status.ok()) return ReadError(directory, status);
  impl->db.reset(db);
  return std::unique_ptr<RowDatabase>(new RowDatabase(std::move(impl)));
}

RowDatabase::SortedFile::SortedFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowDatabase::SortedFile::~SortedFile() {
  impl_->env->DeleteFile(impl_->path).PermitUncheckedError();
}
uint64_t RowDatabase::SortedFile::bytes() const { return impl_->writer.FileSize(); }

Result<std::unique_ptr<RowDatabase::SortedFile>> RowDatabase::NewFile() {
  auto file = std::make_unique<SortedFile::Impl>(
      impl_->options, fmt::format("{}/new-{}.sst", impl_->directory, impl_->files_begun++));
  const rocksdb::Status status = file->writer.Open(file->path);
  if (!status.ok()) return WriteError(file->path, status);
  return std::unique_ptr<SortedFile>(new SortedFile(std::move(file)));
}

Status RowDatabase::SortedFile::Put(std::string_view key, std::span<const uint8_t> value) {
  const rocksdb::Status status = impl_->writer.Put(SliceOf(key), SliceOf(value));
  if (!status.ok()) return WriteError(impl_->path, status);
  return {};
}

Status RowDatabase::SortedFile::Delete(std::string_view key) {
  const rocksdb::Status status = impl_->writer.Delete(SliceOf(key));
  if (!status.ok()) return WriteError(impl_->path, status);
  return {};
}

Status RowDatabase::SortedFile::Finish() {
  const rocksdb::Status status = impl_->writer.Finish(&impl_->info);
  if (!status.ok()) return WriteError(impl_->path, status);
  return {};
}

Status RowDatabase::Ingest(std::span<const std::unique_ptr<SortedFile>> files) {
  if (files.empty()) return {};
  rocksdb::IngestExternalFileArg argument;
  argument.column_family = impl_->db->DefaultColumnFamily();
  argument.options.move_files = true;
  argument.options.write_global_seqno = false;    // the files stay as they were written
  argument.options.verify_file_checksum = false;  // computed while the files were written
  for (const auto& file : files) {
    argument.external_files.push_back(file->impl_->path);
    argument.files_checksums.push_back(file->impl_->info.file_checksum);
    argument.files_checksum_func_names.push_back(file->impl_->info.file_checksum_func_name);
  }
  const rocksdb::Status status = impl_->db->IngestExternalFiles({argument});
  if (!status.ok()) return WriteError(impl_->directory, status);
  return {};
}

Status RowDatabase::Erase(std::span<const std::pair<std::string, std::string>> ranges) {
  if (ranges.empty()) return {};
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  rocksdb::Status status;
  for (const auto& [begin, end] : ranges) {
    if (!status.ok()) break;
    status = impl_->db->DeleteRange(options, impl_->db->DefaultColumnFamily(), begin, end);
  }
  if (status.ok()) status = impl_->db->Flush(rocksdb::FlushOptions());
  if (!status.ok()) return WriteError(impl_->directory, status);
  return {};
}

Status RowDatabase::Compact(std::atomic<bool>* cancelled) {
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.canceled = cancelled;
  // Rewriting could silently lose a damaged file's rows, see Cursor::Impl. RocksDB's
  // VerifyChecksum() cannot be cancelled.
  Cursor at = NewCursor();
  at.Seek("");
  while (at.Valid() && !cancelled->load(std::memory_order_relaxed)) at.Next();
  DSLIDE_RETURN_IF_ERROR(at.status());
  if (cancelled->load()) return {};
  const rocksdb::Status status = impl_->db->CompactRange(options, nullptr, nullptr);
  if (!status.ok() && !cancelled->load()) return WriteError(impl_->directory, status);
  return {};
}

Status RowDatabase::LinkTo(const std::string& directory) const {
  rocksdb::Checkpoint* checkpoint = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(impl_->db.get(), &checkpoint);
  const std::unique_ptr<rocksdb::Checkpoint> owner(checkpoint);
  if (status.ok()) status = checkpoint->CreateCheckpoint(directory);
  if (!status.ok()) return WriteError(directory, status);
  return {};
}

std::vector<ShardFile> RowDatabase::Files() const {
  std::vector<rocksdb::LiveFileMetaData> live;
  impl_->db->GetLiveFilesMetaData(&live);
  std::vector<ShardFile> files;
  for (const auto& file : live) {
    DSLIDE_CHECK(file.file_checksum_func_name == kChecksumName);
    uint64_t checksum = 0;
    DSLIDE_CHECK(file.file_checksum.size() == sizeof(checksum));
    std::memcpy(&checksum, file.file_checksum.data(), sizeof(checksum));
    files.push_back({file.relative_filename, file.size, checksum});
  }
  return files;
}

RowDatabase::Sums RowDatabase::SumsOfFiles() const {
  Sums sums;
  rocksdb::TablePropertiesCollection tables;
  if (!impl_->db->GetPropertiesOfAllTables(&tables).ok()) return sums;
  sums.files = tables.size();
  for (const auto& [name, properties] : tables) {
    sums.entries += properties->num_entries;
    sums.bytes += properties->data_size;
  }
  return sums;
}

bool RowDatabase::IsWorn(uint64_t rows) const {
  const Sums sums = SumsOfFiles();
  // A compaction leaves more than a few of a large database.
  const uint64_t few = std::max(kFewFiles, 2 * sums.bytes / kFileBytes);
  return sums.entries > 2 * rows ||
         (sums.files > few && sums.files * sums.files * kBlockBytes > sums.bytes);
}

uint64_t RowDatabase::BytesOfRows(uint64_t rows) const {
  const Sums sums = SumsOfFiles();
  if (sums.entries <= rows) return sums.bytes;
  return static_cast<uint64_t>(static_cast<double>(sums.bytes) * static_cast<double>(rows) /
                               static_cast<double>(sums.entries));
}

// An iterator of RocksDB 7.8 that comes to the next file skips the whole file, without an error, if
// the file's first block is damaged. A Seek() to the file's first key does report the damage, so
// the cursor seeks to the first key of every file that it reaches or passes.
struct RowDatabase::Cursor::Impl {
  std::string directory;
  std::unique_ptr<rocksdb::Iterator> at;
  std::vector<std::string> starts;  // the files' first keys, ascending
  size_t next_start = 0;            // of the next file to reach

  void EnterFiles() {
    while (next_start < starts.size() && at->status().ok() &&
           (!at->Valid() || at->key().compare(starts[next_start]) >= 0)) {
      at->Seek(starts[next_start++]);
    }
  }
};

RowDatabase::Cursor::Cursor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RowDatabase::Cursor::~Cursor() = default;
RowDatabase::Cursor::Cursor(Cursor&&) noexcept = default;

RowDatabase::Cursor RowDatabase::NewCursor(Reading reading) const {
  rocksdb::ReadOptions options;
  options.readahead_size = reading == Reading::kAhead ? kReadAheadBytes : 0;
  options.fill_cache = false;
  auto cursor = std::make_unique<Cursor::Impl>();
  cursor->directory = impl_->directory;
  cursor->at.reset(impl_->db->NewIterator(options));
  std::vector<rocksdb::LiveFileMetaData> live;
  impl_->db->GetLiveFilesMetaData(&live);
  for (const auto& file : live) cursor->starts.push_back(file.smallestkey);
  std::sort(cursor->starts.begin(), cursor->starts.end());
  return Cursor(std::move(cursor));
}

void RowDatabase::Cursor::Seek(std::string_view key) {
  const auto& starts = impl_->starts;
  impl_->next_start =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), key) - starts.begin());
  impl_->at->Seek(SliceOf(key));
  impl_->EnterFiles();
}
void RowDatabase::Cursor::Next() {
  impl_->at->Next();
  impl_->EnterFiles();
}
bool RowDatabase::Cursor::Valid() const { return impl_->at->Valid(); }
std::string_view RowDatabase::Cursor::key() const {
  return {impl_->at->key().data(), impl_->at->key().size()};
}
std::span<const uint8_t> RowDatabase::Cursor::value() const {
  const rocksdb::Slice value = impl_->at->value();
  return {reinterpret_cast<const uint8_t*>(value.data()), value.size()};
}
Status RowDatabase::Cursor::status() const {
  if (!impl_->at->status().ok()) return ReadError(impl_->directory, impl_->at->status());
  return {};
}

}  // namespace dslide
