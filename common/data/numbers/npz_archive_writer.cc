#include "common/data/numbers/npz_archive_writer.h"

#include <fmt/format.h>
#include <zip.h>

#include <utility>

#include "common/data/output_file.h"

namespace dslide {
namespace {

constexpr time_t kTime = 315'532'800;  // 1980-01-01, ZIP's first day: equal data, equal bytes

}  // namespace

struct NpzArchiveWriter::Handle {
  zip_t* zip = nullptr;  // null: finished

  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (zip != nullptr) zip_discard(zip);
  }
};

NpzArchiveWriter::NpzArchiveWriter(std::string path, Packing packing,
                                   std::unique_ptr<Handle> handle)
    : path_(std::move(path)), packing_(packing), handle_(std::move(handle)) {}
NpzArchiveWriter::NpzArchiveWriter(NpzArchiveWriter&&) noexcept = default;
NpzArchiveWriter::~NpzArchiveWriter() = default;

Result<NpzArchiveWriter> NpzArchiveWriter::Create(const std::string& path, Packing packing) {
  DSLIDE_RETURN_IF_ERROR(CheckRegularOutput(path, "npz"));
  auto handle = std::make_unique<Handle>();
  int code = 0;
  // libzip writes a file of its own beside the path when it closes, and renames it.
  handle->zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (handle->zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why = zip_error_strerror(&error);
    zip_error_fini(&error);
    return BadInput(fmt::format("{}: cannot create: {}", path, why));
  }
  return NpzArchiveWriter(path, packing, std::move(handle));
}

Result<ScratchFile> NpzArchiveWriter::NewArray() const { return ScratchFile::Beside(path_); }

Status NpzArchiveWriter::Add(const std::string& name, ScratchFile array) {
  zip_t* zip = handle_->zip;
  const Result<std::FILE*> file = std::move(array).Release();
  DSLIDE_RETURN_IF_ERROR(file);
  zip_source_t* source = zip_source_filep(zip, *file, 0, -1);  // closes the file
  if (source == nullptr) {
    std::fclose(*file);
    return Failure();
  }
  const zip_int64_t at = zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE);
  if (at < 0) {
    zip_source_free(source);
    return Failure();
  }
  const auto index = static_cast<zip_uint64_t>(at);
  const zip_int32_t method = packing_ == Packing::kStored ? ZIP_CM_STORE : ZIP_CM_DEFLATE;
  if (zip_file_set_mtime(zip, index, kTime, 0) != 0 ||
      zip_set_file_compression(zip, index, method, 0) != 0) {
    return Failure();
  }
  return {};
}

Status NpzArchiveWriter::Finish() {
  if (zip_close(handle_->zip) != 0) return Failure();
  handle_->zip = nullptr;
  return {};
}

Error NpzArchiveWriter::Failure() const {
  return Failed(fmt::format("{}: cannot write: {}", path_, zip_strerror(handle_->zip)));
}

}  // namespace dslide
