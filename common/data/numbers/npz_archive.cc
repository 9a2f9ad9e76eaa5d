#include "common/data/numbers/npz_archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "common/data/numbers/npy_header.h"
#include "common/data/text_stream.h"

namespace dslide {

bool IsZipFile(const std::string& path) {
  char head[4] = {};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(head, sizeof head)) return false;
  const std::string_view magic(head, sizeof head);
  return magic == std::string_view("PK\x03\x04", 4) || magic == std::string_view("PK\x05\x06", 4);
}

struct NpzArchive::Handle {
  std::string path;
  zip_t* zip = nullptr;
  ~Handle() {
    if (zip != nullptr) zip_discard(zip);
  }
};

class NpzArray::Member : public NpySource {
 public:
  Member(std::string path, std::string name, zip_file_t* file)
      : path_(std::move(path)), name_(std::move(name)), file_(file) {}
  ~Member() override { zip_fclose(file_); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Reads up to `size` bytes; fewer only at the end, where the checksum is checked.
  Result<size_t> Read(void* bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
      const zip_int64_t count = zip_fread(file_, static_cast<char*>(bytes) + done, size - done);
      if (count < 0) {
        return Bad(fmt::format("cannot read: {} (copy the file again)", zip_file_strerror(file_)));
      }
      if (count == 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }

  Status Fill(void* bytes, size_t size) override {
    const Result<size_t> count = Read(bytes, size);
    DSLIDE_RETURN_IF_ERROR(count);
    if (*count < size) return Bad("the array ends early (copy the file again)");
    return {};
  }

  Error Bad(const std::string& what) const override {
    return BadInput(fmt::format("{}: {}: {}", path_, name_, what));
  }

 private:
  std::string path_;
  std::string name_;
  zip_file_t* file_;
};

NpzArchive::NpzArchive(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
NpzArchive::NpzArchive(NpzArchive&&) noexcept = default;
NpzArchive::~NpzArchive() = default;

Result<NpzArchive> NpzArchive::Open(const std::string& path) {
  auto handle = std::make_unique<Handle>();
  handle->path = path;
  int code = 0;
  handle->zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (handle->zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string why =
        code == ZIP_ER_NOENT ? std::strerror(ENOENT) : zip_error_strerror(&error);
    zip_error_fini(&error);
    const std::string mend =
        code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS ? " (is it cut? copy the file again)" : "";
    return BadInput(fmt::format("{}: cannot open: {}{}", path, why, mend));
  }
  return NpzArchive(std::move(handle));
}

Result<NpzArray> NpzArchive::Array(const std::string& name) const {
  const std::string member = name + ".npy";
  zip_file_t* file = zip_fopen(handle_->zip, member.c_str(), 0);
  if (file == nullptr) {
    return BadInput(fmt::format("{}: {}: {} (expected a matrix as scipy.sparse.save_npz writes it)",
                                handle_->path, member, zip_strerror(handle_->zip)));
  }
  NpzArray array(std::make_unique<NpzArray::Member>(handle_->path, member, file));
  DSLIDE_RETURN_IF_ERROR(array.ParseHeader());
  return array;
}

NpzArray::NpzArray(std::unique_ptr<Member> member) : member_(std::move(member)) {}
NpzArray::NpzArray(NpzArray&&) noexcept = default;
NpzArray::~NpzArray() = default;

Error NpzArray::Bad(const std::string& what) const { return member_->Bad(what); }

Status NpzArray::ParseHeader() {
  const Result<NpyHeader> header = ReadNpyHeader(member_.get());
  DSLIDE_RETURN_IF_ERROR(header);
  kind_ = header->kind;
  item_size_ = header->item_size;
  size_ = header->size;
  const bool whole =
      is_whole() && (item_size_ == 1 || item_size_ == 2 || item_size_ == 4 || item_size_ == 8);
  const bool real = kind_ == 'f' && (item_size_ == 4 || item_size_ == 8);
  const bool text = kind_ == 'S' || kind_ == 'U';
  if (header->big_endian || item_size_ == 0 || !(whole || real || text)) {
    return Bad(
        fmt::format("has items of type {} (expected int32, int64, float32 or float64, "
                    "little-endian)",
                    Quoted(header->type)));
  }
  return {};
}

Result<size_t> NpzArray::ReadItems(size_t count) {
  count = static_cast<size_t>(std::min<uint64_t>(count, size_ - read_));
  bytes_.resize(count * item_size_);
  DSLIDE_RETURN_IF_ERROR(member_->Fill(bytes_.data(), bytes_.size()));
  read_ += count;
  if (read_ == size_) {
    char more = 0;
    const Result<size_t> after = member_->Read(&more, 1);
    DSLIDE_RETURN_IF_ERROR(after);
    if (*after > 0) return Bad("has more items than its header says");
  }
  return count;
}

template <typename T>
T NpzArray::ItemAs(size_t i) const {
  const char* from = bytes_.data() + i * item_size_;
  const auto as = [from]<typename S>(S stored) {
    std::memcpy(&stored, from, sizeof stored);
    return static_cast<T>(stored);
  };
  if (kind_ == 'f') return item_size_ == 4 ? as(float{}) : as(double{});
  const bool is_signed = kind_ == 'i';
  switch (item_size_) {
    case 1:
      return is_signed ? as(int8_t{}) : as(uint8_t{});
    case 2:
      return is_signed ? as(int16_t{}) : as(uint16_t{});
    case 4:
      return is_signed ? as(int32_t{}) : as(uint32_t{});
    default:
      return is_signed ? as(int64_t{}) : as(uint64_t{});
  }
}

Status NpzArray::ReadWhole(size_t count, std::vector<int64_t>* items) {
  if (!is_whole()) return Bad("has no whole numbers");
  const Result<size_t> read = ReadItems(count);
  DSLIDE_RETURN_IF_ERROR(read);
  items->resize(*read);
  for (size_t i = 0; i < *read; ++i) (*items)[i] = ItemAs<int64_t>(i);
  return {};
}

Status NpzArray::ReadNumbers(size_t count, std::vector<double>* items) {
  if (!is_whole() && kind_ != 'f') return Bad("has no numbers");
  const Result<size_t> read = ReadItems(count);
  DSLIDE_RETURN_IF_ERROR(read);
  items->resize(*read);
  for (size_t i = 0; i < *read; ++i) (*items)[i] = ItemAs<double>(i);
  return {};
}

Result<std::string> NpzArray::ReadString() {
  if ((kind_ != 'S' && kind_ != 'U') || size_ != 1) return Bad("has no string");
  const Result<size_t> read = ReadItems(1);
  DSLIDE_RETURN_IF_ERROR(read);
  std::string text;
  const size_t step = kind_ == 'U' ? 4 : 1;
  for (size_t i = 0; i < bytes_.size() && bytes_[i] != 0; i += step) text += bytes_[i];
  return text;
}

}  // namespace dslide
