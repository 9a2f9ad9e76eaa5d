// Entries of the scheduler's ledger, and their sum.
//
//   input = *(length(2, little-endian) value)
//
// The checksum of a value is made right where it is wrong, so that what lies behind it is reached.
#include <zlib.h>

#include <algorithm>

#include "scheduler/ledger/ledger_value.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/scheduler/ledger/ledger_entries.h"

namespace dslide::ledger_fuzz {
namespace {

using fuzz::Inputs;

constexpr size_t kChecksumBytes = 4;

// Over the entry's number and the value without its checksum (ledger_value.h).
void MendChecksum(uint64_t number, std::string* value) {
  if (value->size() < kChecksumBytes) return;
  std::string checked;
  for (size_t i = 0; i < 8; ++i) checked += static_cast<char>(number >> (8 * i));
  checked += value->substr(kChecksumBytes);
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size());
  for (size_t i = 0; i < kChecksumBytes; ++i) (*value)[i] = static_cast<char>(sum >> (8 * i));
}

bool Take(uint64_t number, std::string value, LedgerState* state) {
  (void)fuzz::Accepted(DecodeLedgerEntry(number, value));
  MendChecksum(number, &value);
  const Result<LedgerEntry> entry = DecodeLedgerEntry(number, value);
  if (!fuzz::Accepted(entry)) return false;
  const Result<LedgerEntry> again = DecodeLedgerEntry(number, EncodeLedgerEntry(number, *entry));
  DSLIDE_CHECK(again.ok() && *again == *entry);
  state->Apply(*entry);
  return true;
}

bool Run(std::string_view input) {
  LedgerState state;
  uint64_t number = 0;
  bool all = true;
  while (input.size() >= 2) {
    const size_t length =
        size_t{static_cast<uint8_t>(input[0])} | size_t{static_cast<uint8_t>(input[1])} << 8;
    input.remove_prefix(2);
    all &= Take(number++, std::string(input.substr(0, length)), &state);
    input.remove_prefix(std::min(length, input.size()));
  }
  for (const DoneBatch& batch : state.done) {
    DSLIDE_CHECK(state.Counts({state.epoch, batch.unit, batch.index}));
  }
  return all && number > 0;
}

Inputs Seeds() {
  testing::RandomEntries entries(1);
  Inputs seeds;
  std::string all;
  for (size_t kind = 0; kind < testing::RandomEntries::kKinds; ++kind) {
    for (const uint64_t number : {uint64_t{0}, uint64_t{kind}}) {
      const std::string value = EncodeLedgerEntry(number, entries.Next(kind));
      const std::string entry = {static_cast<char>(value.size() & 0xff),
                                 static_cast<char>(value.size() >> 8)};
      if (number == 0) seeds.push_back(entry + value);
      all += entry + value;
    }
  }
  seeds.push_back(all);
  return seeds;
}

const fuzz::Entered kEntered({"ledger", Run, Seeds});

}  // namespace
}  // namespace dslide::ledger_fuzz
