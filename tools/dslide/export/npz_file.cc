#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tools/dslide/data/scratch_file.h"
#include "tools/dslide/export/exports.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays have their least byte first");

// One array of the archive.
struct Member {
  std::string name;
  std::string npy;  // header of the array
  std::function<void(const ByteSink&)> write;

  void Write(const ByteSink& sink) const {
    sink(npy);
    write(sink);
  }
};

// The header of an .npy file: a Python dict, filled up so that the elements begin at a multiple of
// 64 bytes.
std::string NpyHeader(const std::string& type, const std::string& shape) {
  constexpr size_t kBeforeDict = 10, kAlignment = 64;
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  const size_t used = kBeforeDict + dict.size() + 1;
  dict.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

Member Floats(const std::string& name, uint64_t rows, uint64_t columns,
              std::function<void(const ByteSink&)> write) {
  const std::string shape =
      columns == 0 ? fmt::format("{},", rows) : fmt::format("{}, {}", rows, columns);
  return {name, NpyHeader("<f4", shape), std::move(write)};
}

// Texts of one length, filled up with zeros.
Member LabelNames(const Model& model) {
  const uint32_t count = model.info().labels();
  size_t longest = 1;
  for (uint32_t label = 0; label < count; ++label) {
    longest = std::max(longest, model.LabelName(label).size());
  }
  return {"labels", NpyHeader(fmt::format("|S{}", longest), fmt::format("{},", count)),
          [&model, count, longest](const ByteSink& sink) {
            for (uint32_t label = 0; label < count; ++label) {
              std::string name = model.LabelName(label);
              name.resize(longest);
              sink(name);
            }
          }};
}

Member Text(const std::string& name, const std::string& text) {
  return {name, NpyHeader(fmt::format("|S{}", text.size()), ""),
          [text](const ByteSink& sink) { sink(text); }};
}

constexpr time_t kTime = 315'532'800;  // 1980-01-01, ZIP's first day: equal models, equal bytes

// An archive that is removed unless it is finished.
class Archive {
 public:
  static Result<Archive> Create(const std::string& path) {
    const std::string temporary = path + ".tmp";
    int code = 0;
    zip_t* zip = zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (zip == nullptr) {
      return BadInput(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
    }
    return Archive(path, zip);
  }
  Archive(Archive&& other) noexcept
      : path_(std::move(other.path_)), zip_(std::exchange(other.zip_, nullptr)) {}
  ~Archive() {
    if (zip_ != nullptr) zip_discard(zip_);
  }

  Status Add(const Member& member) {
    Result<ScratchFile> scratch = ScratchFile::Beside(path_);
    DSLIDE_RETURN_IF_ERROR(scratch);
    member.Write([&](std::string_view bytes) { scratch->Write(bytes); });
    const Result<std::FILE*> file = std::move(*scratch).Release();
    DSLIDE_RETURN_IF_ERROR(file);
    zip_source_t* source = zip_source_filep(zip_, *file, 0, -1);  // closes the file
    const zip_int64_t at =
        zip_file_add(zip_, (member.name + ".npy").c_str(), source, ZIP_FL_OVERWRITE);
    if (at < 0) {
      zip_source_free(source);
      return Failure();
    }
    const auto index = static_cast<zip_uint64_t>(at);
    if (zip_file_set_mtime(zip_, index, kTime, 0) != 0 ||
        zip_set_file_compression(zip_, index, ZIP_CM_STORE, 0) != 0) {
      return Failure();
    }
    return {};
  }

  Status Finish() {
    if (zip_close(zip_) != 0) return Failure();
    zip_ = nullptr;
    const std::string temporary = path_ + ".tmp";
    if (std::rename(temporary.c_str(), path_.c_str()) == 0) return {};
    const Error error = Failed(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
    std::remove(temporary.c_str());
    return error;
  }

 private:
  Archive(std::string path, zip_t* zip) : path_(std::move(path)), zip_(zip) {}
  Error Failure() const {
    return Failed(fmt::format("{}: cannot write: {}", path_, zip_strerror(zip_)));
  }

  std::string path_;
  zip_t* zip_;
};

}  // namespace

Status WriteNpz(const DenseRows& rows, const std::string& path) {
  const Member members[] = {
      Floats("input", rows.input_rows(), rows.hidden(),
             [&](const ByteSink& sink) { rows.WriteInput(Precision::kFp32, sink); }),
      Floats("weights", rows.labels(), rows.hidden(),
             [&](const ByteSink& sink) { rows.WriteWeights(Precision::kFp32, sink); }),
      Floats("bias", rows.labels(), 0, [&](const ByteSink& sink) { rows.WriteBias(sink); }),
      LabelNames(rows.model()),
      Text("config", rows.ConfigJson()),
  };
  Result<Archive> archive = Archive::Create(path);
  DSLIDE_RETURN_IF_ERROR(archive);
  for (const Member& member : members) DSLIDE_RETURN_IF_ERROR(archive->Add(member));
  return archive->Finish();
}

}  // namespace dslide
