#include "server/executor/state/executor_record.h"

#include <doctest/doctest.h>

#include "common/base/random.h"
#include "tests/support/results.h"

namespace dslide::executor_record_test {
namespace {

ExecutorRecord SomeRecord() {
  ExecutorRecord record;
  record.slots = {{4}, SlotMap::kNoSlot, {2}, SlotMap::kNoSlot, {9}};
  record.committed = 0;
  record.hash = {3, {5, true, 77}};
  record.hashing = {2, 4};
  record.applied.resize(2);
  record.applied[0].slots = {{2}, {4}};
  record.applied[0].batches[0].Add(100);
  record.applied[0].batches[1].Add(99);
  record.applied[1].slots = {{9}};
  return record;
}

TEST_CASE("executor record: comes back as it was") {
  const ExecutorRecord record = SomeRecord();
  const auto back = Ok(ExecutorRecord::Decode(record.Encode()));
  CHECK(back.slots == record.slots);
  CHECK(back.committed == record.committed);
  CHECK(back.hash == record.hash);
  CHECK(back.hashing == record.hashing);
  REQUIRE(back.applied.size() == 2);
  CHECK(back.applied[0].slots == record.applied[0].slots);
  CHECK(back.applied[0].batches == record.applied[0].batches);
  CHECK(back.Encode() == record.Encode());

  ExecutorRecord other = record;
  other.committed.reset();
  other.hash.reset();
  const auto without = Ok(ExecutorRecord::Decode(other.Encode()));
  CHECK_FALSE(without.committed);
  CHECK_FALSE(without.hash);
}

TEST_CASE("executor record: damage is an error, not a crash") {
  const std::string bytes = SomeRecord().Encode();
  const auto message = [](std::string_view damaged) {
    const auto record = ExecutorRecord::Decode(damaged);
    return record.ok() ? "" : record.error().message;
  };
  CHECK(message("").find("damaged") != std::string::npos);
  for (size_t size = 0; size < bytes.size(); ++size) {
    (void)message(std::string_view(bytes).substr(0, size));
  }
  Random random(3);
  for (int n = 0; n < 20'000; ++n) {
    std::string changed = bytes;
    changed[random.Below(changed.size())] ^= static_cast<char>(1 << random.Below(8));
    (void)message(changed);
  }
  ExecutorRecord twice = SomeRecord();
  twice.applied[1].slots = {{4}};
  CHECK(message(twice.Encode()).find("damaged") != std::string::npos);
  twice.applied.pop_back();
  CHECK(message(twice.Encode()).find("damaged") != std::string::npos);
  ExecutorRecord empty = SomeRecord();
  empty.applied.emplace_back();
  CHECK(message(empty.Encode()).find("damaged") != std::string::npos);
}

}  // namespace
}  // namespace dslide::executor_record_test
