#include "server/checkpoint_store.h"

#include <fmt/core.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "common/base/random.h"

namespace dslide {
namespace {

constexpr size_t kKeyBytes = 9;
constexpr size_t kBatchBytes = size_t{4} << 20;

void PutBigEndian(uint32_t value, char* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (24 - 8 * i));
}

uint32_t GetBigEndian(const char* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | static_cast<uint8_t>(in[i]);
  return value;
}

std::array<char, kKeyBytes> EncodeKey(const StoredRowKey& key) {
  std::array<char, kKeyBytes> out;
  out[0] = static_cast<char>(key.layer);
  PutBigEndian(key.slot.value, &out[1]);
  PutBigEndian(key.row, &out[5]);
  return out;
}

// A 64-bit mix of a row; a shard's checksum is the sum over its rows, in any order.
uint64_t RowChecksum(std::span<const char> key, std::span<const uint8_t> value) {
  uint64_t sum = 0;
  const auto mix = [&](const void* data, size_t size) {
    const auto* at = static_cast<const uint8_t*>(data);
    for (; size >= 8; at += 8, size -= 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      sum = Mix64(sum ^ word);
    }
    uint64_t word = size;
    std::memcpy(&word, at, size);
    sum = Mix64(sum ^ word ^ (uint64_t{size} << 56));
  };
  mix(key.data(), key.size());
  mix(value.data(), value.size());
  return sum;
}

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options;
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;  // Debian's build has only a slow crc32c
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kLZ4Compression;  // harmless on noise, helps rows never touched
  options.write_buffer_size = size_t{64} << 20;
  options.max_background_jobs = 2;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.keep_log_file_num = 1;
  return options;
}

Error DatabaseError(const std::string& directory, const char* what, const rocksdb::Status& status) {
  return Failed(fmt::format("{}: {}: {}", directory, what, status.ToString()));
}

}  // namespace

struct CheckpointWriter::Impl {
  std::string directory;
  std::unique_ptr<rocksdb::DB> db;
  std::atomic<uint64_t> rows{0}, bytes{0}, checksum{0};
  std::mutex mutex;       // guards error
  rocksdb::Status error;  // the first one

  void Write(rocksdb::WriteBatch* batch) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;  // Finish() flushes; an unfinished checkpoint does not exist
    const rocksdb::Status status = db->Write(options, batch);
    if (status.ok()) return;
    const std::lock_guard lock(mutex);
    if (error.ok()) error = status;
  }
};

struct CheckpointWriter::Batch::Impl {
  rocksdb::WriteBatch batch;
  uint64_t rows = 0, bytes = 0, checksum = 0;
};

CheckpointWriter::Batch::Batch(CheckpointWriter* writer)
    : writer_(writer), impl_(std::make_unique<Impl>()) {}

CheckpointWriter::Batch::~Batch() { Flush(); }

void CheckpointWriter::Batch::Put(const StoredRowKey& key, std::span<const uint8_t> value) {
  const auto encoded = EncodeKey(key);
  impl_->batch.Put({encoded.data(), encoded.size()},
                   {reinterpret_cast<const char*>(value.data()), value.size()});
  impl_->rows++;
  impl_->bytes += encoded.size() + value.size();
  impl_->checksum += RowChecksum(encoded, value);
  if (impl_->batch.GetDataSize() >= kBatchBytes) Flush();
}

void CheckpointWriter::Batch::Flush() {
  if (impl_->rows == 0) return;
  writer_->impl_->Write(&impl_->batch);
  writer_->impl_->rows += impl_->rows;
  writer_->impl_->bytes += impl_->bytes;
  writer_->impl_->checksum += impl_->checksum;
  *impl_ = Impl();
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointWriter::~CheckpointWriter() = default;

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(const std::string& directory) {
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  std::filesystem::create_directories(directory, error);
  if (error) return Failed(fmt::format("{}: cannot create: {}", directory, error.message()));
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  rocksdb::Options options = DatabaseOptions();
  options.create_if_missing = true;
  options.PrepareForBulkLoad();
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, &db);
  if (!status.ok()) return DatabaseError(directory, "cannot create", status);
  impl->db.reset(db);
  return std::unique_ptr<CheckpointWriter>(new CheckpointWriter(std::move(impl)));
}

Result<CheckpointWriter::Totals> CheckpointWriter::Finish() {
  rocksdb::Status status = impl_->error;
  if (status.ok()) status = impl_->db->Flush(rocksdb::FlushOptions());
  if (status.ok()) status = impl_->db->Close();
  impl_->db.reset();
  if (!status.ok()) return DatabaseError(impl_->directory, "cannot write", status);
  return Totals{impl_->rows, impl_->bytes, impl_->checksum};
}

struct CheckpointReader::Impl {
  std::string directory;
  std::unique_ptr<rocksdb::DB> db;
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::~CheckpointReader() = default;

Result<std::unique_ptr<CheckpointReader>> CheckpointReader::Open(const std::string& directory) {
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  rocksdb::Options options = DatabaseOptions();
  options.max_open_files = 32;  // every executor opens every shard
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, directory, &db);
  if (!status.ok()) return DatabaseError(directory, "cannot open the checkpoint's shard", status);
  impl->db.reset(db);
  return std::unique_ptr<CheckpointReader>(new CheckpointReader(std::move(impl)));
}

Result<uint64_t> CheckpointReader::ForEachRow(
    LayerKind layer, SlotId slot,
    const std::function<Status(uint32_t row, std::span<const uint8_t> value)>& row) const {
  const auto first = EncodeKey({layer, slot, 0});
  const rocksdb::Slice prefix(first.data(), kKeyBytes - 4);
  rocksdb::ReadOptions options;
  options.readahead_size = size_t{2} << 20;
  const std::unique_ptr<rocksdb::Iterator> at(impl_->db->NewIterator(options));
  uint64_t rows = 0;
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    if (at->key().size() != kKeyBytes) {
      return Failed(fmt::format("{}: a key of {} bytes; not a checkpoint", impl_->directory,
                                at->key().size()));
    }
    const uint32_t number = GetBigEndian(at->key().data() + kKeyBytes - 4);
    DSLIDE_RETURN_IF_ERROR(
        row(number, {reinterpret_cast<const uint8_t*>(at->value().data()), at->value().size()}));
    rows++;
  }
  if (!at->status().ok()) return DatabaseError(impl_->directory, "cannot read", at->status());
  return rows;
}

}  // namespace dslide
