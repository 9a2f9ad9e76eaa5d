#include "common/data/numbers/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "common/data/text_stream.h"

namespace dslide {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeaderBytes = 65536;

// The text of 'key' in the header's dictionary, from its value on; empty if it is not there.
std::string_view ValueOf(std::string_view header, std::string_view key) {
  const size_t found = header.find(fmt::format("'{}':", key));
  if (found == std::string_view::npos) return {};
  header.remove_prefix(found + key.size() + 3);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

// "(3, 4)"; false if it is no shape, or one of more than 2^62 items.
bool ParseShape(std::string_view text, NpyHeader* header) {
  if (!text.starts_with('(')) return false;
  header->size = 1;
  uint64_t number = 0;
  bool digits = false;
  bool ended = false;  // by a space
  for (const char c : text.substr(1)) {
    if (c >= '0' && c <= '9') {
      if (ended || number > std::numeric_limits<uint64_t>::max() / 20) return false;
      number = 10 * number + static_cast<uint64_t>(c - '0');
      digits = true;
    } else if (c == ',' || c == ')') {
      if (digits && number > 0 && header->size > (uint64_t{1} << 62) / number) return false;
      if (digits) {
        header->shape.push_back(number);
        header->size *= number;
      }
      number = 0;
      digits = ended = false;
      if (c == ')') return true;
    } else if (c == ' ' || c == 'L') {
      ended = digits;
    } else {
      return false;
    }
  }
  return false;
}

// "'<f4'": the byte order, the kind, and the bytes of an item, of 'U' its characters.
bool ParseType(std::string_view text, NpyHeader* header) {
  if (!text.starts_with('\'')) return false;
  text.remove_prefix(1);
  text = text.substr(0, text.find('\''));
  if (text.size() < 2) return false;  // "|O" has no size
  header->type = text;
  header->big_endian = text[0] == '>';
  header->kind = text[1];
  for (const char c : text.substr(2)) {
    // Dates have a unit behind: it is no type of numbers.
    if (c < '0' || c > '9' || header->item_size > 1000) {
      header->kind = '?';
      return true;
    }
    header->item_size = 10 * header->item_size + static_cast<size_t>(c - '0');
  }
  if (header->kind == 'U') header->item_size *= 4;
  return true;
}

}  // namespace

bool IsNpyFile(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::string head(kMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kMagic;
}

Result<NpyHeader> ReadNpyHeader(NpySource* source) {
  unsigned char head[12] = {};
  DSLIDE_RETURN_IF_ERROR(source->Fill(head, 8));
  if (std::memcmp(head, kMagic.data(), kMagic.size()) != 0) return source->Bad("is no .npy array");
  const size_t length_bytes = head[6] == 1 ? 2 : 4;
  DSLIDE_RETURN_IF_ERROR(source->Fill(head + 8, length_bytes));
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | head[8 + i];
  if (length > kMostHeaderBytes) return source->Bad("the header of the array is damaged");
  std::string text(length, '\0');
  DSLIDE_RETURN_IF_ERROR(source->Fill(text.data(), length));
  NpyHeader header;
  header.bytes = 8 + length_bytes + length;
  header.fortran_order = ValueOf(text, "fortran_order").starts_with("True");
  if (!ParseType(ValueOf(text, "descr"), &header) || !ParseShape(ValueOf(text, "shape"), &header)) {
    return source->Bad(fmt::format("cannot read the header {}", Quoted(text)));
  }
  return header;
}

std::string NpyHeaderText(const std::string& type, const std::string& shape, size_t room) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kBeforeDictionary = 10;
  std::string header(kMagic);
  header += std::string_view("\x01\x00\x00\x00", 4);  // the version, and room for the length
  header += fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  const size_t bytes = std::max(room, header.size() + 1);
  header.resize((bytes + kAlignment - 1) / kAlignment * kAlignment - 1, ' ');
  header += '\n';
  const size_t length = header.size() - kBeforeDictionary;
  header[8] = static_cast<char>(length & 0xff);
  header[9] = static_cast<char>(length >> 8);
  return header;
}

}  // namespace dslide
