// A ledger on a disk that is full for a while: no entry is lost, none is there twice.
#include <doctest/doctest.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/base/events.h"
#include "scheduler/base/ledger_queue.h"
#include "scheduler/ledger/ledger.h"
#include "tests/scheduler/ledger/ledger_entries.h"
#include "tests/support/results.h"
#include "tests/support/temp_directory.h"

namespace dslide::ledger_full_disk_test {
namespace {

using testing::FixedEntry;

// A disk that has room for so many bytes. It takes the beginning of a write that does not fit.
class SmallDisk final : public rocksdb::EnvWrapper {
 public:
  static constexpr int64_t kRoomy = int64_t{1} << 40;

  SmallDisk() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "SmallDisk"; }

  std::atomic<int64_t> room = kRoomy;  // bytes

  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    const rocksdb::Status status = target()->NewWritableFile(path, file, options);
    if (status.ok()) *file = std::make_unique<File>(std::move(*file), this);
    return status;
  }

 private:
  class File final : public rocksdb::WritableFileWrapper {
   public:
    File(std::unique_ptr<rocksdb::WritableFile> file, SmallDisk* disk)
        : WritableFileWrapper(file.get()), file_(std::move(file)), disk_(*disk) {}
    using WritableFileWrapper::Append;
    rocksdb::Status Append(const rocksdb::Slice& data) override {
      const auto fits = static_cast<size_t>(
          std::clamp<int64_t>(disk_.room, 0, static_cast<int64_t>(data.size())));
      disk_.room -= static_cast<int64_t>(fits);
      const rocksdb::Status status = WritableFileWrapper::Append({data.data(), fits});
      if (!status.ok() || fits == data.size()) return status;
      return rocksdb::Status::NoSpace("While appending to file: No space left on device");
    }

   private:
    std::unique_ptr<rocksdb::WritableFile> file_;
    SmallDisk& disk_;
  };
};

// The ledger that another life of the scheduler finds has these entries, and no others.
void CheckHolds(const std::string& path, const std::vector<LedgerEntry>& entries) {
  const Result<std::vector<LedgerEntry>> read = Ledger::Read(path);
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(*read == entries);
}

TEST_CASE("ledger: entries that found no room are written once there is some, wherever it ended") {
  for (int64_t room = 0; room < 600; room += 13) {
    CAPTURE(room);
    const TempDirectory directory;
    const std::string path = directory.path() + "/ledger";
    SmallDisk disk;
    LedgerState state;
    auto opened = Ok(Ledger::Open(path, &state, &disk));
    std::vector<LedgerEntry> written;
    const auto next = [&] { return FixedEntry(written.size()); };
    for (int i = 0; i < 20; ++i) {
      REQUIRE(opened->Append(next()).ok());
      written.push_back(next());
    }
    disk.room = room;
    Status full;
    while ((full = opened->Append(next())).ok()) written.push_back(next());
    CHECK(full.error().kind == ErrorKind::kTryLater);
    CHECK(full.error().message ==
          path + ": cannot write the ledger: no space left on its disk; free space there");
    // There is still none, or too little.
    for (const int64_t more : {int64_t{0}, int64_t{40}}) {
      disk.room = more;
      CHECK_FALSE(opened->Append(next()).ok());
    }
    disk.room = SmallDisk::kRoomy;
    for (int i = 0; i < 5; ++i) {
      const Status status = opened->Append(next());
      REQUIRE_MESSAGE(status.ok(), status.error().message);
      written.push_back(next());
    }
    CHECK(opened->Sync().ok());
    CHECK(opened->entries() == written.size());
    opened = nullptr;
    CheckHolds(path, written);
  }
}

TEST_CASE("ledger: a scheduler that dies while the disk is full leaves what it had appended") {
  const TempDirectory directory;
  const std::string path = directory.path() + "/ledger";
  SmallDisk disk;
  LedgerState state;
  std::vector<LedgerEntry> written;
  {
    auto opened = Ok(Ledger::Open(path, &state, &disk));
    for (uint64_t n = 0; n < 30; ++n) {
      REQUIRE(opened->Append(FixedEntry(n)).ok());
      written.push_back(FixedEntry(n));
    }
    disk.room = 10;
    for (int i = 0; i < 3; ++i) CHECK_FALSE(opened->Append(FixedEntry(30)).ok());
  }
  CheckHolds(path, written);
}

SchedulerEffects Recorded(uint64_t n) {
  SchedulerEffects effects;
  effects.ledger.push_back(FixedEntry(n));
  effects.actions.push_back(action::Log{{event::kLedgerWaits, std::to_string(n)}});
  effects.sync_ledger = n % 2 == 1;
  return effects;
}

TEST_CASE("ledger queue: what is decided waits for room, in order, and is tried every second") {
  const TempDirectory directory;
  SmallDisk disk;
  LedgerState state;
  auto ledger = Ok(Ledger::Open(directory.path() + "/ledger", &state, &disk));
  LedgerQueue queue(ledger.get());
  std::vector<std::string> done;
  const auto take = [&](int64_t now_ms) {
    while (true) {
      std::optional<SchedulerEffects> next = Ok(queue.Next(now_ms));
      if (!next) return;
      done.push_back(std::get<action::Log>(next->actions.at(0)).event.text);
    }
  };
  for (const uint64_t n : {0, 1}) queue.Add(Recorded(n));
  take(1000);
  CHECK(done == std::vector<std::string>{"0", "1"});
  CHECK_FALSE(queue.wait());
  disk.room = 0;
  for (const uint64_t n : {2, 3, 4}) queue.Add(Recorded(n));
  take(5000);
  REQUIRE(queue.wait());
  CHECK(queue.wait()->since_ms == 5000);
  CHECK(done.size() == 2);
  disk.room = SmallDisk::kRoomy;
  take(5999);
  CHECK(done.size() == 2);
  take(6000);
  CHECK(done == std::vector<std::string>{"0", "1", "2", "3", "4"});
  CHECK_FALSE(queue.wait());
  CHECK(ledger->entries() == 5);
}

}  // namespace
}  // namespace dslide::ledger_full_disk_test
