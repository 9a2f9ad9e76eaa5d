// The keys of a server's database, in bytes. They sort by layer, slot and row, so a slot's rows are
// neighbours.
//
//   row     layer(1) slot(4) row(4)      layer: LayerKind; value: Layer::StoreRow, hash codes
//   record  2(1) executor(4)             value: the executor's record
//
// Numbers are big-endian. A row's key does not depend on the number of servers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/executor/state/stored_rows.h"

namespace dslide {

constexpr size_t kRowKeyBytes = 9;
constexpr size_t kRecordKeyBytes = 5;
constexpr char kRecordKind = 2;  // after all layers

using RowKeyBytes = std::array<char, kRowKeyBytes>;
using RecordKeyBytes = std::array<char, kRecordKeyBytes>;

inline void PutBigEndian(uint32_t value, char* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (24 - 8 * i));
}

inline uint32_t GetBigEndian(const char* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = (value << 8) | static_cast<uint8_t>(in[i]);
  return value;
}

inline RowKeyBytes EncodeRowKey(const StoredRowKey& key) {
  RowKeyBytes out;
  out[0] = static_cast<char>(key.layer);
  PutBigEndian(key.slot.value, &out[1]);
  PutBigEndian(key.row, &out[5]);
  return out;
}

// Nullopt: not a row's key.
inline std::optional<StoredRowKey> DecodeRowKey(std::string_view key) {
  if (key.size() != kRowKeyBytes || static_cast<uint8_t>(key[0]) >= kRecordKind)
    return std::nullopt;
  return StoredRowKey{
      static_cast<LayerKind>(key[0]), {GetBigEndian(&key[1])}, GetBigEndian(&key[5])};
}

inline RecordKeyBytes EncodeRecordKey(uint32_t executor) {
  RecordKeyBytes out;
  out[0] = kRecordKind;
  PutBigEndian(executor, &out[1]);
  return out;
}

template <size_t kSize>
std::string_view View(const std::array<char, kSize>& key) {
  return {key.data(), key.size()};
}

}  // namespace dslide
