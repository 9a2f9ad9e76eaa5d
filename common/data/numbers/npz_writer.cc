#include "common/data/numbers/npz_writer.h"

#include <fmt/format.h>
#include <zip.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dslide {
namespace {

constexpr const char* kArrayNames[] = {"indptr", "indices", "data"};
constexpr size_t kHeaderBytes = 128;   // a multiple of 64, as NumPy aligns arrays
constexpr time_t kTime = 315'532'800;  // 1980-01-01, ZIP's first day: equal data, equal bytes

// A .npy header of one dimension, or none.
std::string NpyHeaderText(const std::string& type, const std::string& shape) {
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(kHeaderBytes - 10);
  header += '\0';
  header += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  header.resize(kHeaderBytes - 1, ' ');
  return header + "\n";
}

}  // namespace

Result<NpzWriter> NpzWriter::Create(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    return BadInput(fmt::format("{}: is no regular file (npz cannot be written to it)", path));
  }
  NpzWriter writer(path);
  for (size_t i = 0; i < kArrays; ++i) {
    Spool& spool = writer.spools_[i];
    spool.path = fmt::format("{}.{}.tmp", path, kArrayNames[i]);
    spool.file = std::fopen(spool.path.c_str(), "w+");
    if (spool.file == nullptr) {
      return BadInput(fmt::format("{}: cannot create: {}", spool.path, std::strerror(errno)));
    }
    const std::string room(kHeaderBytes, ' ');
    writer.Append(i, room.data(), room.size());
  }
  const int64_t zero = 0;
  writer.Append(0, &zero, sizeof zero);
  return writer;
}

NpzWriter::NpzWriter(NpzWriter&& other) noexcept
    : path_(std::move(other.path_)),
      rows_(other.rows_),
      entries_(other.entries_),
      error_(other.error_) {
  for (size_t i = 0; i < kArrays; ++i) std::swap(spools_[i], other.spools_[i]);
}

NpzWriter::~NpzWriter() { RemoveSpools(); }

void NpzWriter::RemoveSpools() {
  for (Spool& spool : spools_) {
    if (spool.file == nullptr) continue;
    std::fclose(std::exchange(spool.file, nullptr));
    std::remove(spool.path.c_str());
  }
}

void NpzWriter::Append(size_t array, const void* bytes, size_t size) {
  if (size > 0 && std::fwrite(bytes, 1, size, spools_[array].file) < size && error_ == 0) {
    error_ = errno;
  }
}

void NpzWriter::AddRow(std::span<const uint32_t> columns, std::span<const float> values) {
  ++rows_;
  entries_ += static_cast<int64_t>(columns.size());
  Append(0, &entries_, sizeof entries_);
  Append(1, columns.data(), columns.size_bytes());
  Append(2, values.data(), values.size_bytes());
}

Status NpzWriter::Finish(uint32_t columns) {
  // scipy has int32 indices; above them it converts.
  const bool is_signed = columns <= uint32_t{1} << 31;
  const std::string headers[] = {
      NpyHeaderText("<i8", fmt::format("{},", rows_ + 1)),
      NpyHeaderText(is_signed ? "<i4" : "<u4", fmt::format("{},", entries_)),
      NpyHeaderText("<f4", fmt::format("{},", entries_))};
  for (size_t i = 0; i < kArrays; ++i) {
    if (std::fseek(spools_[i].file, 0, SEEK_SET) != 0 && error_ == 0) error_ = errno;
    Append(i, headers[i].data(), headers[i].size());
    if (std::fflush(spools_[i].file) != 0 && error_ == 0) error_ = errno;
  }
  if (error_ != 0) {
    return Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(error_)));
  }
  const Status written = WriteArchive(columns);
  RemoveSpools();
  return written;
}

Status NpzWriter::WriteArchive(uint32_t columns) {
  const std::string temporary = path_ + ".tmp";
  const auto failed = [&](const std::string& why) {
    std::remove(temporary.c_str());
    return Failed(fmt::format("{}: cannot write: {}", path_, why));
  };
  const std::string format = NpyHeaderText("|S3", "") + "csr";
  std::string shape = NpyHeaderText("<i8", "2,");
  for (const int64_t size : {static_cast<int64_t>(rows_), int64_t{columns}}) {
    shape.append(reinterpret_cast<const char*>(&size), sizeof size);
  }
  int code = 0;
  zip_t* zip = zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (zip == nullptr) return failed(std::strerror(errno));
  const auto add = [&](const std::string& name, zip_source_t* source) {
    const zip_int64_t at = zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE);
    if (at < 0) {
      zip_source_free(source);
      return false;
    }
    return zip_file_set_mtime(zip, static_cast<zip_uint64_t>(at), kTime, 0) == 0;
  };
  bool added = true;
  for (size_t i = 0; i < kArrays; ++i) {
    added = added && add(kArrayNames[i], zip_source_file(zip, spools_[i].path.c_str(), 0, -1));
  }
  added = added && add("shape", zip_source_buffer(zip, shape.data(), shape.size(), 0));
  added = added && add("format", zip_source_buffer(zip, format.data(), format.size(), 0));
  if (!added || zip_close(zip) != 0) {
    const std::string why = zip_strerror(zip);
    zip_discard(zip);
    return failed(why);
  }
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) return failed(std::strerror(errno));
  return {};
}

}  // namespace dslide
