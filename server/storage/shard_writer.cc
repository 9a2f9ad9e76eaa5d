#include "server/storage/shard_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "common/base/failpoint.h"
#include "common/base/process.h"
#include "common/checkpoint/disk_use.h"
#include "common/checkpoint/file_checksum.h"
#include "common/checkpoint/layout.h"
#include "common/log/events.h"
#include "common/log/log.h"
#include "server/storage/shard_directory.h"
#include "server/storage/stored_keys.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Before the keys of a slot's rows, and at the end of those of the slot before it.
std::string KeysFrom(LayerKind layer, SlotId slot) {
  const RowKeyBytes key = EncodeRowKey({layer, slot, 0});
  return std::string(View(key));
}

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The executors that have a record in the database.
Result<std::set<uint32_t>> RecordsIn(const RowDatabase& database) {
  std::set<uint32_t> records;
  RowDatabase::Cursor at = database.NewCursor(RowDatabase::Reading::kPoints);
  for (at.Seek(View(EncodeRecordKey(0))); at.Valid(); at.Next()) {
    if (at.key().size() == kRecordKeyBytes) records.insert(GetBigEndian(&at.key()[1]));
  }
  DSLIDE_RETURN_IF_ERROR(at.status());
  return records;
}

}  // namespace

ShardWriter::ShardWriter(CheckpointStore::Place place, CheckpointStore::Base base)
    : place_(std::move(place)), base_(std::move(base)) {}

ShardWriter::~ShardWriter() {
  Discard();
  DropDatabase();
  std::error_code ignored;
  if (!store_.empty()) fs::remove_all(store_, ignored);
}

std::string ShardWriter::ShardPath() const {
  return fmt::format("{}/{}", save_->directory, save_->shard);
}

// Of a compaction that is over, or cancelled. After an error the database begins again from the
// last shard.
void ShardWriter::EndCompaction() {
  const Status compacted = compaction_.get();
  if (compacted.ok()) return;
  LogWarning({event::kOldRowsStay,
              "while old rows were removed from the store: " + compacted.error().message});
  database_.reset();
}

void ShardWriter::DropDatabase() {
  if (compaction_.valid()) {
    cancelled_ = true;
    EndCompaction();
    cancelled_ = false;
  }
  database_.reset();
}

Status ShardWriter::OpenDatabase() {
  if (compaction_.valid() &&
      compaction_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    EndCompaction();
  }
  if (database_) return {};
  const std::string directory = fs::path(save_->directory).parent_path();
  RemoveOldStores(directory, place_.life);
  store_ = fmt::format("{}/{}", directory, StoreName(place_.life));
  std::error_code ignored;
  fs::remove_all(store_, ignored);
  auto database = RowDatabase::Create(store_, base_.directory, place_.env);
  DSLIDE_RETURN_IF_ERROR(database);
  slots_ = base_.slots;
  database_ = std::move(*database);
  return {};
}

// Removes the rows of slots that are not this server's: slots of the base, or slots that left. A
// slot that comes back brings all its rows.
Status ShardWriter::RemoveOthers() {
  std::vector<SlotId> others;
  std::ranges::set_difference(slots_, save_->slots, std::back_inserter(others));
  std::vector<std::pair<std::string, std::string>> ranges;
  for (const LayerKind layer : {LayerKind::kInput, LayerKind::kOutput}) {
    for (const SlotId slot : others) {
      ranges.emplace_back(KeysFrom(layer, slot), KeysFrom(layer, {slot.value + 1}));
    }
  }
  DSLIDE_RETURN_IF_ERROR(database_->Erase(ranges));
  slots_ = save_->slots;
  return {};
}

void ShardWriter::Begin(CheckpointStore::Save save) {
  DSLIDE_CHECK(!save_);
  save_ = std::move(save);
  written_bytes_ = 0;
  writing_us_ = 0;
  rows_ = save_->rows;
  files_.open.resize(save_->executors);
  early_files_.open.resize(save_->executors);
  // First of all: pruning frees the space for this checkpoint. What a server saves for itself
  // before it leaves replaces no checkpoint.
  if (IsCheckpointName(save_->name)) {
    PruneShards(fs::path(save_->directory).parent_path(), save_->name, save_->keep,
                PlanVersionOfShard(save_->shard).value_or(0), base_.directory);
  }
  Status ready = OpenDatabase();
  if (place_.disk_bytes > 0) disk_bytes_ = BytesUnder({fs::path(save_->directory).parent_path()});
  if (ready.ok()) ready = RemoveOthers();
  if (!ready.ok()) error_ = ready.error();
}

void ShardWriter::Write(uint32_t executor, const RowChunk& chunk) {
  if (!save_ || error_) return;
  DSLIDE_CHECK(executor < save_->executors);
  const int64_t began_us = MonotonicMicros();
  const Status written = WriteRows(executor, chunk);
  writing_us_ += MonotonicMicros() - began_us;
  if (!written.ok()) {
    error_ = written.error();
  } else if (PassFailpoint(Failpoint::kServerMidCheckpoint)) {
    error_ = Failed("failpoint server.mid-checkpoint");
  }
  if (error_) DropFiles();
}

// The owner's limit (idle.disk_mb).
Status ShardWriter::CheckRoom() const {
  if (place_.disk_bytes == 0) return {};
  const uint64_t bytes = disk_bytes_ + files_.bytes() + early_files_.bytes();
  if (bytes <= place_.disk_bytes) return {};
  return TryLater(fmt::format("{}: checkpoints would take more than the {} MB of idle.disk_mb",
                              fs::path(save_->directory).parent_path().string(),
                              place_.disk_bytes >> 20));
}

uint64_t ShardWriter::FileSet::bytes() const {
  uint64_t bytes = 0;
  for (const auto& file : finished) bytes += file->bytes();
  for (const OpenFile& file : open) bytes += file.file == nullptr ? 0 : file.file->bytes();
  return bytes;
}

Status ShardWriter::WriteRows(uint32_t executor, const RowChunk& chunk) {
  FileSet& files = chunk.early ? early_files_ : files_;
  OpenFile& open = files.open[executor];
  size_t begin = 0;
  for (size_t i = 0; i < chunk.keys.size(); ++i) {
    const StoredRowKey& key = chunk.keys[i];
    if (open.file != nullptr && (open.last.layer != key.layer || key <= open.last ||
                                 open.file->bytes() >= RowDatabase::kFileBytes)) {
      DSLIDE_RETURN_IF_ERROR(CloseFile(executor, &files));
    }
    if (open.file == nullptr) {
      auto file = database_->NewFile();
      DSLIDE_RETURN_IF_ERROR(file);
      open.file = std::move(*file);
    }
    open.last = key;
    const std::span<const uint8_t> value(chunk.bytes.data() + begin, chunk.ends[i] - begin);
    DSLIDE_RETURN_IF_ERROR(open.file->Put(View(EncodeRowKey(key)), value));
    begin = chunk.ends[i];
  }
  return CheckRoom();
}

Status ShardWriter::CloseFile(uint32_t executor, FileSet* files) {
  OpenFile& open = files->open[executor];
  if (open.file == nullptr) return {};
  DSLIDE_RETURN_IF_ERROR(open.file->Finish());
  files->finished.push_back(std::move(open.file));
  return {};
}

Status ShardWriter::Ingest(FileSet* files) {
  for (uint32_t executor = 0; executor < files->open.size(); ++executor) {
    DSLIDE_RETURN_IF_ERROR(CloseFile(executor, files));
  }
  for (const auto& file : files->finished) written_bytes_ += file->bytes();
  return database_->Ingest(files->finished);
}

void ShardWriter::TakeRecord(uint32_t executor, std::string record) {
  if (save_) records_[executor] = std::move(record);
}

// Replaces all records in the database by those of this checkpoint.
Status ShardWriter::WriteRecords() {
  const auto old = RecordsIn(*database_);
  DSLIDE_RETURN_IF_ERROR(old);
  std::set<uint32_t> numbers = *old;
  for (const auto& [executor, record] : records_) numbers.insert(executor);
  if (numbers.empty()) return {};
  auto file = database_->NewFile();
  DSLIDE_RETURN_IF_ERROR(file);
  for (const uint32_t number : numbers) {
    const RecordKeyBytes key = EncodeRecordKey(number);
    const auto record = records_.find(number);
    DSLIDE_RETURN_IF_ERROR(record == records_.end()
                               ? (*file)->Delete(View(key))
                               : (*file)->Put(View(key), BytesOf(record->second)));
  }
  DSLIDE_RETURN_IF_ERROR((*file)->Finish());
  files_.finished.push_back(std::move(*file));
  return {};
}

// Early files overlap the others. In one call with them, they would make the database take all as
// overlapping.
Status ShardWriter::Store() {
  DSLIDE_RETURN_IF_ERROR(WriteRecords());
  DSLIDE_RETURN_IF_ERROR(Ingest(&files_));
  DSLIDE_RETURN_IF_ERROR(Ingest(&early_files_));
  const std::string shard = ShardPath();
  std::error_code error;
  fs::create_directories(save_->directory, error);
  // Remains of an earlier attempt, and of RocksDB's own.
  fs::remove_all(shard, error);
  fs::remove_all(shard + kTemporarySuffix, error);
  return database_->LinkTo(shard);
}

// Lists and syncs the shard's files. Data files were synced when they were written, but not if they
// had to be copied for want of hard links. Syncing a clean file costs nothing.
Status ShardWriter::ListFiles(CheckpointDone* done) {
  const std::string shard = ShardPath();
  // The shard's, because a compaction changes those of the database meanwhile.
  auto linked = RowDatabase::OpenForReading(shard);
  DSLIDE_RETURN_IF_ERROR(linked);
  done->files = (*linked)->Files();
  done->written_bytes = written_bytes_;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(shard, error)) {
    DSLIDE_RETURN_IF_ERROR(Sync(entry.path()));
    if (entry.path().extension() == ".sst") continue;
    const Result<uint64_t> checksum = FileChecksum(entry.path());
    DSLIDE_RETURN_IF_ERROR(checksum);
    const uint64_t bytes = fs::file_size(entry.path(), error);
    done->files.push_back({entry.path().filename(), bytes, *checksum});
    done->written_bytes += bytes;
  }
  if (error) return Failed(fmt::format("{}: cannot list: {}", shard, error.message()));
  std::sort(done->files.begin(), done->files.end(),
            [](const ShardFile& a, const ShardFile& b) { return a.name < b.name; });
  for (const ShardFile& file : done->files) done->bytes += file.bytes;
  DSLIDE_RETURN_IF_ERROR(Sync(shard));
  DSLIDE_RETURN_IF_ERROR(Sync(save_->directory));
  return Sync(fs::path(save_->directory).parent_path());
}

Status ShardWriter::Sync(const std::string& path) {
  const int64_t began_us = MonotonicMicros();
  Status synced = SyncPath(path);
  disk_.sync_us =
      std::max(disk_.sync_us,
               static_cast<uint32_t>(std::min<int64_t>(MonotonicMicros() - began_us, UINT32_MAX)));
  return synced;
}

// A few files take as long as their syncs, however fast the disk writes.
void ShardWriter::MeasureDisk(uint64_t written_bytes) {
  constexpr uint64_t kLeastBytes = uint64_t{8} << 20;
  if (written_bytes < kLeastBytes || writing_us_ == 0) return;
  disk_.bytes_per_second = static_cast<uint64_t>(1e6 * static_cast<double>(written_bytes) /
                                                 static_cast<double>(writing_us_));
}

CheckpointDone ShardWriter::End() {
  CheckpointDone done;
  disk_ = {};
  const int64_t began_us = MonotonicMicros();
  Status status = error_ ? Status(*error_) : Store();
  if (status.ok()) status = ListFiles(&done);
  writing_us_ += MonotonicMicros() - began_us;
  if (status.ok()) MeasureDisk(done.written_bytes);
  if (!status.ok()) {
    std::error_code ignored;
    fs::remove_all(ShardPath(), ignored);
    fs::remove(save_->directory, ignored);  // only if it is empty
    CheckpointDone failed;
    failed.error = status.error().message;
    Discard();
    DropDatabase();
    // What is wrong with the disk may be wrong with the last shard, unless there was no room. A
    // shard of a checkpoint that another server failed in may have been removed.
    lost_ = status.error().kind != ErrorKind::kTryLater ||
            (!base_.directory.empty() && !fs::exists(base_.directory, ignored));
    if (lost_) base_ = {};
    return Close(std::move(failed));
  }
  done.rows = rows_;
  base_ = {ShardPath(), slots_};
  return Close(std::move(done));
}

CheckpointDone ShardWriter::GiveUp(const std::string& error, bool retry) {
  Discard();
  CheckpointDone done;
  done.error = error_ ? error_->message : error;
  done.retry = !error_ && retry;
  return Close(std::move(done));
}

CheckpointDone ShardWriter::Close(CheckpointDone done) {
  if (save_) {
    done.name = save_->name;
    done.shard = save_->shard;
  }
  Discard();
  save_.reset();
  error_.reset();
  return done;
}

// Frees the disk space of the save's files. The records stay: they tell when the save is complete.
void ShardWriter::DropFiles() {
  files_ = {};
  early_files_ = {};
}

void ShardWriter::Discard() {
  DropFiles();
  records_.clear();
}

// Old and new files are there together, and the next save may write meanwhile.
bool ShardWriter::HasRoomToCompact() const {
  const uint64_t bytes = database_->BytesOfRows(rows_);
  std::error_code error;
  const fs::space_info space = fs::space(store_, error);
  if (!error && space.available < bytes + written_bytes_) return false;
  return place_.disk_bytes == 0 ||
         BytesUnder({fs::path(store_).parent_path()}) + bytes <= place_.disk_bytes;
}

void ShardWriter::CompactIfWorthIt() {
  if (!database_ || compaction_.valid() || !database_->IsWorn(rows_)) return;
  if (!HasRoomToCompact()) {
    if (!std::exchange(told_, true)) {
      LogWarning({event::kOldRowsStay,
                  store_ + ": old rows stay in the store, there is no room to rewrite it"});
    }
    return;
  }
  told_ = false;
  compaction_ = std::async(std::launch::async, [this, database = database_.get()] {
    return database->Compact(&cancelled_);
  });
}

}  // namespace dslide
