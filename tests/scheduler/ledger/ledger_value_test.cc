#include "scheduler/ledger/ledger_value.h"

#include <doctest/doctest.h>

#include "tests/scheduler/ledger/ledger_entries.h"
#include "tests/support/hex.h"
#include "tests/support/results.h"

namespace dslide::ledger_value_test {
namespace {

using testing::Hex;

using testing::RandomEntries;

TEST_CASE("every entry of the ledger comes back as it was encoded") {
  RandomEntries entries(1);
  for (uint64_t n = 0; n < 2000; ++n) {
    const LedgerEntry entry = entries.Next(n % RandomEntries::kKinds);
    const auto decoded = Ok(DecodeLedgerEntry(n, EncodeLedgerEntry(n, entry)));
    CHECK(decoded == entry);
  }
}

TEST_CASE("the bytes of the ledger's values are fixed") {
  const auto hex = [](uint64_t number, const LedgerEntry& entry) {
    return Hex(EncodeLedgerEntry(number, entry));
  };
  CHECK(hex(0, LedgerOpened{{0x1122334455667788}, "c", 5, 6}) ==
        "66a69048011000000044534c4c08000c00070008000800000000000001100000000c002000080004"
        "00100018000c0000001c000000887766554433221105000000000000000600000000000000010000"
        "0063000000");
  CHECK(hex(1, LedgerPlanned{{2, {{"s", "a", {3}}}, {0, 0}, "r"}}) ==
        "4e107fa9011400000044534c4c0000000008000c00070008000800000000000002100000000c0014"
        "00040008000c0010000c000000020000001c00000010000000040000000100000072000000020000"
        "0000000000010000001000000000000a001400040008000c000a000000180000000c000000030000"
        "000000000001000000610000000100000073000000");
  CHECK(hex(2, LedgerRestored{"n", 1, 2, 3, {{4, 5}}}) ==
        "b6215a0c011400000044534c4c0000000008000e000700080008000000000000031400000000000e"
        "00240004000800100018000c000e0000002c00000001000000180000000200000000000000030000"
        "000000000000000000010000000400000005000000010000006e000000");
  CHECK(hex(3, LedgerCounted{{1, 2, 3}, 256, "w"}) ==
        "3f28ef02011000000044534c4c08000e000700080008000000000000041000000000000a00180004"
        "00100014000a00000001000000020000000300000000010000040000000100000077000000");
  CHECK(hex(4, LedgerEpochDone{1}) ==
        "2361af76011000000044534c4c08000e000700080008000000000000050c00000000000600080004"
        "000600000001000000");
  CHECK(hex(5, LedgerCheckpointed{"n", 2}) ==
        "8f92f931011400000044534c4c0000000008000c000700080008000000000000060c000000080010"
        "0004000800080000000c0000000200000000000000010000006e000000");
  CHECK(hex(6, LedgerStopped{true}) ==
        "2cec564b011000000044534c4c08000e000700080008000000000000070c00000000000600080007"
        "000600000000000001");
  CHECK(hex(7, LedgerHeldOut{2, {0.5f, 1.0f}}) ==
        "5ae112e2011000000044534c4c08000c000700080008000000000000080c00000008000c0004000800"
        "080000000200000004000000020000000000003f0000803f");
}

TEST_CASE("a flipped bit, a cut and another entry's number are found in a value of the ledger") {
  RandomEntries entries(2);
  for (size_t kind = 0; kind < RandomEntries::kKinds; ++kind) {
    const std::string good = EncodeLedgerEntry(kind, entries.Next(kind));
    CHECK_FALSE(DecodeLedgerEntry(kind + 1, good).ok());
    for (size_t size = 0; size < good.size(); ++size) {
      CHECK_FALSE(DecodeLedgerEntry(kind, std::span(good).first(size)).ok());
    }
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      const auto decoded = DecodeLedgerEntry(kind, bad);
      REQUIRE_FALSE(decoded.ok());
      CHECK(decoded.error().message == "its checksum does not match");
    }
  }
}

}  // namespace
}  // namespace dslide::ledger_value_test
