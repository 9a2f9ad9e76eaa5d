#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "tools/dslide/export/exports.h"
#include "tools/dslide/model/output_file.h"

namespace dslide {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays have their least byte first");

// One array of the archive.
struct Member {
  std::string name;
  std::string npy;  // header of the array
  uint64_t bytes;   // of the elements
  std::function<void(const ByteSink&)> write;

  uint64_t size() const { return npy.size() + bytes; }
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
  return {name, NpyHeader("<f4", shape), rows * std::max<uint64_t>(columns, 1) * sizeof(float),
          std::move(write)};
}

// Texts of one length, filled up with zeros.
Member LabelNames(const Model& model) {
  const uint32_t count = model.info().labels();
  size_t longest = 1;
  for (uint32_t label = 0; label < count; ++label) {
    longest = std::max(longest, model.LabelName(label).size());
  }
  return {"labels", NpyHeader(fmt::format("|S{}", longest), fmt::format("{},", count)),
          uint64_t{count} * longest, [&model, count, longest](const ByteSink& sink) {
            for (uint32_t label = 0; label < count; ++label) {
              std::string name = model.LabelName(label);
              name.resize(longest);
              sink(name);
            }
          }};
}

Member Text(const std::string& name, const std::string& text) {
  return {name, NpyHeader(fmt::format("|S{}", text.size()), ""), text.size(),
          [text](const ByteSink& sink) { sink(text); }};
}

// zip: PKWARE's APPNOTE.TXT, 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16 (its end),
// 4.5.3 (sizes of 64 bits).
constexpr uint16_t kVersion = 45;  // that knows 64-bit sizes
constexpr uint32_t kIn64Bits = 0xffffffffu;
constexpr uint32_t kFirstDay = 0x21u << 16;  // 1 January 1980: a file depends on the model alone

class ZipBytes {
 public:
  template <typename T>
  ZipBytes& Add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  ZipBytes& Add(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct Placed {
  std::string file_name;
  uint32_t crc;
  uint64_t size;
  uint64_t offset;  // of the local header
};

std::string LocalHeader(const Placed& member) {
  return ZipBytes()
      .Add(uint32_t{0x04034b50})
      .Add(kVersion)
      .Add(uint16_t{0})  // flags
      .Add(uint16_t{0})  // stored
      .Add(kFirstDay)
      .Add(member.crc)
      .Add(kIn64Bits)
      .Add(kIn64Bits)
      .Add(static_cast<uint16_t>(member.file_name.size()))
      .Add(uint16_t{20})  // of what follows the name
      .Add(member.file_name)
      .Add(uint16_t{1})
      .Add(uint16_t{16})
      .Add(member.size)
      .Add(member.size)
      .bytes();
}

std::string DirectoryEntry(const Placed& member) {
  return ZipBytes()
      .Add(uint32_t{0x02014b50})
      .Add(kVersion)
      .Add(kVersion)
      .Add(uint16_t{0})  // flags
      .Add(uint16_t{0})  // stored
      .Add(kFirstDay)
      .Add(member.crc)
      .Add(kIn64Bits)
      .Add(kIn64Bits)
      .Add(static_cast<uint16_t>(member.file_name.size()))
      .Add(uint16_t{28})
      .Add(uint16_t{0})  // comment
      .Add(uint16_t{0})  // disk
      .Add(uint16_t{0})  // internal attributes
      .Add(uint32_t{0})  // external attributes
      .Add(kIn64Bits)
      .Add(member.file_name)
      .Add(uint16_t{1})
      .Add(uint16_t{24})
      .Add(member.size)
      .Add(member.size)
      .Add(member.offset)
      .bytes();
}

std::string DirectoryEnd(uint64_t members, uint64_t bytes, uint64_t offset) {
  return ZipBytes()
      .Add(uint32_t{0x06064b50})
      .Add(uint64_t{44})  // bytes of this record that follow
      .Add(kVersion)
      .Add(kVersion)
      .Add(uint32_t{0})
      .Add(uint32_t{0})
      .Add(members)
      .Add(members)
      .Add(bytes)
      .Add(offset)
      .Add(uint32_t{0x07064b50})
      .Add(uint32_t{0})
      .Add(offset + bytes)
      .Add(uint32_t{1})  // disks
      .Add(uint32_t{0x06054b50})
      .Add(uint16_t{0})
      .Add(uint16_t{0})
      .Add(static_cast<uint16_t>(members))
      .Add(static_cast<uint16_t>(members))
      .Add(kIn64Bits)
      .Add(kIn64Bits)
      .Add(uint16_t{0})  // comment
      .bytes();
}

uint32_t ChecksumOf(const Member& member) {
  uLong crc = crc32(0, nullptr, 0);
  member.Write([&](std::string_view bytes) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  });
  return static_cast<uint32_t>(crc);
}

}  // namespace

Status WriteNpz(const DenseRows& rows, const std::string& path) {
  const std::vector<Member> members = {
      Floats("input", rows.input_rows(), rows.hidden(),
             [&](const ByteSink& sink) { rows.WriteInput(Precision::kFp32, sink); }),
      Floats("weights", rows.labels(), rows.hidden(),
             [&](const ByteSink& sink) { rows.WriteWeights(Precision::kFp32, sink); }),
      Floats("bias", rows.labels(), 0, [&](const ByteSink& sink) { rows.WriteBias(sink); }),
      LabelNames(rows.model()),
      Text("config", rows.ConfigJson()),
  };
  Result<OutputFile> file = OutputFile::Create(path);
  DSLIDE_RETURN_IF_ERROR(file);
  uint64_t at = 0;
  const ByteSink sink = [&](std::string_view bytes) {
    file->Write(bytes);
    at += bytes.size();
  };
  std::string directory;
  for (const Member& member : members) {
    const Placed placed = {member.name + ".npy", ChecksumOf(member), member.size(), at};
    sink(LocalHeader(placed));
    member.Write(sink);
    directory += DirectoryEntry(placed);
  }
  const uint64_t offset = at;
  sink(directory);
  sink(DirectoryEnd(members.size(), directory.size(), offset));
  return file->Finish();
}

}  // namespace dslide
