#include "common/data/numbers/npz_writer.h"

#include <fmt/format.h>

#include <utility>

#include "common/data/numbers/npy_header.h"

namespace dslide {
namespace {

constexpr const char* kArrayNames[] = {"indptr", "indices", "data"};
constexpr size_t kHeaderBytes = 128;  // of any header of one dimension

template <typename T>
std::string_view BytesOf(std::span<const T> items) {
  return {reinterpret_cast<const char*>(items.data()), items.size_bytes()};
}

}  // namespace

Result<NpzWriter> NpzWriter::Create(const std::string& path) {
  Result<NpzArchiveWriter> archive =
      NpzArchiveWriter::Create(path, NpzArchiveWriter::Packing::kDeflated);
  DSLIDE_RETURN_IF_ERROR(archive);
  NpzWriter writer(*std::move(archive));
  for (size_t i = 0; i < std::size(kArrayNames); ++i) {
    Result<ScratchFile> array = writer.archive_.NewArray();
    DSLIDE_RETURN_IF_ERROR(array);
    array->Write(std::string(kHeaderBytes, ' '));
    writer.arrays_.push_back(*std::move(array));
  }
  const int64_t zero = 0;
  writer.arrays_[0].Write(BytesOf(std::span<const int64_t>(&zero, 1)));
  return writer;
}

void NpzWriter::AddRow(std::span<const uint32_t> columns, std::span<const float> values) {
  ++rows_;
  entries_ += static_cast<int64_t>(columns.size());
  arrays_[0].Write(BytesOf(std::span<const int64_t>(&entries_, 1)));
  arrays_[1].Write(BytesOf(columns));
  arrays_[2].Write(BytesOf(values));
}

Status NpzWriter::Finish(uint32_t columns) {
  // scipy has int32 indices; above them it converts.
  const bool is_signed = columns <= uint32_t{1} << 31;
  const std::string headers[] = {
      NpyHeaderText("<i8", fmt::format("{},", rows_ + 1), kHeaderBytes),
      NpyHeaderText(is_signed ? "<i4" : "<u4", fmt::format("{},", entries_), kHeaderBytes),
      NpyHeaderText("<f4", fmt::format("{},", entries_), kHeaderBytes)};
  for (size_t i = 0; i < arrays_.size(); ++i) {
    arrays_[i].Overwrite(0, headers[i]);
    DSLIDE_RETURN_IF_ERROR(archive_.Add(kArrayNames[i], std::move(arrays_[i])));
  }
  const auto add = [this](const char* name, const std::string& bytes) -> Status {
    Result<ScratchFile> array = archive_.NewArray();
    DSLIDE_RETURN_IF_ERROR(array);
    array->Write(bytes);
    return archive_.Add(name, *std::move(array));
  };
  const int64_t shape[] = {static_cast<int64_t>(rows_), int64_t{columns}};
  DSLIDE_RETURN_IF_ERROR(add(
      "shape", NpyHeaderText("<i8", "2,") + std::string(BytesOf(std::span<const int64_t>(shape)))));
  DSLIDE_RETURN_IF_ERROR(add("format", NpyHeaderText("|S3", "") + "csr"));
  return archive_.Finish();
}

}  // namespace dslide
