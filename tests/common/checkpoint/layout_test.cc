#include "common/checkpoint/layout.h"

#include <doctest/doctest.h>

namespace dslide::layout_test {
namespace {

constexpr uint64_t kMost = ~uint64_t{0};

TEST_CASE("layout: the names are those of schema/CHECKPOINT.md") {
  CHECK(std::string(kLedgerName) == "ledger");
  CHECK(std::string(kCheckpointsName) == "checkpoint");
  CHECK(std::string(kManifestName) == "manifest");
  CHECK(CheckpointName(1412) == "step-000000001412");
  CHECK(CheckpointName(kMost) == "step-18446744073709551615");
  CHECK(ShardName(3, 0) == "shard-3-0");
  CHECK(OrphanName({3, 12}) == "orphan-3-12");
  CHECK(StoreName("server-1-00000000000000ff") == "store-server-1-00000000000000ff");
  CHECK(ParentOf("/run/checkpoint/step-000000000001") == "/run/checkpoint");
}

TEST_CASE("layout: names are read back, and others are refused") {
  CHECK(IsCheckpointName(CheckpointName(7)));
  CHECK_FALSE(IsCheckpointName(OrphanName({7, 7})));
  for (const uint32_t version : {0u, 1u, 0xffffffffu}) {
    CHECK(PlanVersionOfShard(ShardName(version, 0xffffffffu)) == version);
    for (const uint64_t committed : {uint64_t{0}, kMost}) {
      CHECK(ParseOrphanName(OrphanName({version, committed})) == Orphan{version, committed});
    }
  }
  for (const char* other : {"", "shard-", "shard-1", "shard-1-", "shard--1", "shard-1-2-3",
                            "shard-1-2x", "shard-1 -2", "shard-4294967296-0", "Shard-1-2"}) {
    CAPTURE(other);
    CHECK_FALSE(PlanVersionOfShard(other));
  }
  for (const char* other : {"", "orphan-", "orphan-1", "orphan-1-", "orphan-1-x", "orphan-1-2-3",
                            "orphan-1-18446744073709551616", "step-000000000001", "orphan"}) {
    CAPTURE(other);
    CHECK_FALSE(ParseOrphanName(other));
  }
}

TEST_CASE("layout: the stores of a server's other lives, whatever its name") {
  const std::string own = StoreName("server-00000000000000aa");
  CHECK(IsStoreOfOtherLife("store-server-00000000000000ab", own));
  for (const char* other :
       {"store-server-00000000000000aa", "store-server-2-00000000000000ab", "store-server-x",
        "store-servex-00000000000000ab", "store-server-00000000000000xy", "store-server", ""}) {
    CAPTURE(other);
    CHECK_FALSE(IsStoreOfOtherLife(other, own));
  }
  CHECK(StoreName("a/b \n-1") == "store-a%2fb%20%0a-1");
}

TEST_CASE("layout: a plain file name leads nowhere else") {
  for (const char* name : {"shard-3-0", "000010.sst", "CURRENT", "MANIFEST-000004", "a..b", "n"}) {
    CAPTURE(name);
    CHECK(IsPlainFileName(name));
  }
  for (const char* name :
       {"", ".", "..", "../x", "a/b", "/", ".hidden", "a b", "a\nb", "\xff", "a\\b"}) {
    CAPTURE(name);
    CHECK_FALSE(IsPlainFileName(name));
  }
  CHECK(IsPlainFileName(std::string(255, 'x')));
  CHECK_FALSE(IsPlainFileName(std::string(256, 'x')));
  CHECK_FALSE(IsPlainFileName(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace dslide::layout_test
