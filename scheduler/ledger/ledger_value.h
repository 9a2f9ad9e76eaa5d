// A ledger's entry as a stored value.
//
//   value = checksum(4) format(1) Entry       little-endian; Entry: schema/ledger.fbs
//
// The checksum is the CRC-32 of the entry's number (8 bytes, little-endian), the format and the
// Entry, so it detects a value under a wrong key as well as a flipped bit. This is the only
// interface to FlatBuffers for the ledger.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/base/error.h"
#include "scheduler/ledger/ledger.h"

namespace dslide {

constexpr uint8_t kLedgerFormat = 1;

std::string EncodeLedgerEntry(uint64_t number, const LedgerEntry& entry);

// Verifies before it reads. Errors (kBadInput) say what is wrong with the value; the caller adds
// its number.
Result<LedgerEntry> DecodeLedgerEntry(uint64_t number, std::span<const char> value);

}  // namespace dslide
