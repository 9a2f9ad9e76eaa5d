#include "scheduler/ledger/ledger_tail.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "scheduler/ledger/ledger_value.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNumberBytes = 8;
constexpr size_t kMaxLengthBytes = 5;
// RocksDB's logs consist of blocks of 32 KB; it finds a damaged length before the last block.
constexpr std::streamoff kTailBytes = 2 * 32768;
// The file identifier in a value lies after checksum, format and the root's offset.
constexpr std::string_view kIdentifier = "DSLL";
constexpr size_t kIdentifierOffset = 9;

uint64_t GetBigEndian(std::string_view in) {
  uint64_t value = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) value = value << 8 | static_cast<uint8_t>(in[i]);
  return value;
}

// Decodes LEB128 that fills all of `in`.
std::optional<uint64_t> GetVarint(std::string_view in) {
  uint64_t value = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const auto byte = static_cast<uint8_t>(in[i]);
    if ((byte >= 0x80) == (i + 1 == in.size())) return std::nullopt;
    value |= uint64_t{byte & 0x7fu} << (7 * i);
  }
  return value;
}

// Whether a whole entry's value begins at `at`, after its key and its length.
bool IsEntryAt(std::string_view bytes, size_t at, uint64_t first) {
  for (size_t n = 1; n <= kMaxLengthBytes && n + kNumberBytes <= at; ++n) {
    const std::optional<uint64_t> length = GetVarint(bytes.substr(at - n, n));
    if (!length || *length > bytes.size() - at) continue;
    const uint64_t number = GetBigEndian(bytes.substr(at - n - kNumberBytes));
    if (number >= first && DecodeLedgerEntry(number, bytes.substr(at, *length)).ok()) return true;
  }
  return false;
}

}  // namespace

bool HoldsEntryFrom(std::string_view bytes, uint64_t first) {
  for (size_t at = bytes.find(kIdentifier); at != std::string_view::npos;
       at = bytes.find(kIdentifier, at + 1)) {
    if (at >= kIdentifierOffset && IsEntryAt(bytes, at - kIdentifierOffset, first)) return true;
  }
  return false;
}

std::string LogTail(const std::string& directory) {
  fs::path newest;  // names are numbers with leading zeros
  std::error_code error;
  for (const auto& file : fs::directory_iterator(directory, error)) {
    if (file.path().extension() == ".log") newest = std::max(newest, file.path());
  }
  std::ifstream file(newest, std::ios::binary | std::ios::ate);
  if (!file) return {};
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kTailBytes));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace dslide
