// A server's store on a disk that fails, is full or may not be used: what is named, and what stays.
#include <doctest/doctest.h>
#include <rocksdb/env.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/disk_use.h"
#include "server/storage/shard_directory.h"
#include "tests/server/support/saving_server.h"

namespace dslide::store_failures_test {
namespace {

namespace fs = std::filesystem;

// A disk on which writes or syncs of data files fail.
class FailingDisk final : public rocksdb::EnvWrapper {
 public:
  FailingDisk() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "FailingDisk"; }

  std::atomic<bool> full = false;
  std::atomic<bool> no_sync = false;

  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    const rocksdb::Status status = target()->NewWritableFile(path, file, options);
    if (status.ok()) *file = std::make_unique<File>(path, std::move(*file), this);
    return status;
  }

 private:
  class File final : public rocksdb::WritableFileWrapper {
   public:
    File(std::string path, std::unique_ptr<rocksdb::WritableFile> file, FailingDisk* disk)
        : WritableFileWrapper(file.get()),
          path_(std::move(path)),
          file_(std::move(file)),
          disk_(*disk) {}
    using WritableFileWrapper::Append;
    rocksdb::Status Append(const rocksdb::Slice& data) override {
      if (disk_.full) return rocksdb::Status::NoSpace("While appending to file: " + path_);
      return WritableFileWrapper::Append(data);
    }
    rocksdb::Status Sync() override {
      if (disk_.no_sync)
        return rocksdb::Status::IOError("While fsync: " + path_, "Input/output error");
      return WritableFileWrapper::Sync();
    }
    rocksdb::Status Fsync() override { return Sync(); }

   private:
    std::string path_;
    std::unique_ptr<rocksdb::WritableFile> file_;
    FailingDisk& disk_;
  };
};
TEST_CASE("a failing disk is named, and hurts neither the last checkpoint nor the next") {
  FailingDisk disk;
  SavingServer saver(StoreConfig(), &disk);
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(3, 1.0f);
  std::string expected;
  SUBCASE("full") {
    disk.full = true;
    expected = "free space there";
  }
  SUBCASE("that does not sync") {
    disk.no_sync = true;
    expected = "Input/output error";
  }
  const CheckpointDone failed = saver.Save(2, {CheckpointName(1)});
  INFO(failed.error);
  CHECK(failed.error.find(saver.directory.path() + "/") == 0);
  CHECK(failed.error.find(expected) != std::string::npos);
  CHECK(failed.error.find('\n') == std::string::npos);
  CHECK_FALSE(failed.retry);
  CHECK_FALSE(fs::exists(saver.Path(2)));
  CHECK(saver.Health(1).damage.empty());
  disk.full = false;
  disk.no_sync = false;
  const CheckpointDone next = saver.Save(3, {CheckpointName(1)});
  REQUIRE(next.error == "");  // with the rows of the failed one
  // Where there was no space, all rows again would need more of it.
  CHECK((next.written_bytes < next.bytes / 2) == (expected == "free space there"));
  saver.CheckRestores(3);
  CHECK(saver.Health(3).damage.empty());
}

TEST_CASE("a save without space does not go on from a shard that was removed meanwhile") {
  FailingDisk disk;
  SavingServer saver(StoreConfig(), &disk);
  REQUIRE(saver.Save(1).error == "");
  fs::remove_all(saver.Path(1));  // another server has failed, so it was no checkpoint
  saver.Touch(1, 1.0f);
  disk.full = true;
  REQUIRE(saver.Save(2).error.find("free space there") != std::string::npos);
  disk.full = false;
  REQUIRE(saver.Save(3).error == "");
  saver.CheckRestores(3);
}

TEST_CASE("the owner's limit of disk is kept, and hurts neither the last checkpoint nor the next") {
  SavingServer roomy(StoreConfig());
  REQUIRE(roomy.Save(1).error == "");
  const uint64_t whole = BytesUnder({roomy.directory.path()});  // the store and its checkpoint
  constexpr uint64_t kMb = 1 << 20;
  REQUIRE(whole > kMb);
  SavingServer saver(StoreConfig(), nullptr, whole + whole / 2);
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(1, 1.0f);
  const CheckpointDone failed = saver.Save(2, {CheckpointName(1)});
  CHECK(failed.error == saver.directory.path() + ": checkpoints would take more than the " +
                            std::to_string((whole + whole / 2) / kMb) + " MB of idle.disk_mb");
  CHECK(saver.Health(1).damage.empty());
  CHECK(BytesUnder({saver.directory.path()}) <= whole + whole / 2);
  saver.Touch(1, -1.0f);
  SavingServer small(StoreConfig(), nullptr, whole / 2);
  CHECK(small.Save(1).error.find("idle.disk_mb") != std::string::npos);
}

TEST_CASE("a write that fails after another executor's end still ends the save") {
  FailingDisk disk;
  SavingServer saver(StoreConfig(), &disk);
  REQUIRE(saver.Save(1).error == "");
  disk.full = true;
  saver.store->Begin({2, CheckpointName(2), saver.Path(2), ShardName(1, 0), {}, {}, 2, 0});
  saver.store->Finish(0, "record");
  RowChunk rows;
  for (uint32_t row = 0; row < 512; ++row) {  // 4 MB, more than RocksDB buffers
    rows.keys.push_back({LayerKind::kOutput, 0, row});
    for (int i = 0; i < 8192; ++i) rows.bytes.push_back(static_cast<uint8_t>(std::rand()));
    rows.ends.push_back(rows.bytes.size());
  }
  saver.store->Put(1, std::move(rows));
  saver.store->Finish(1, "record");
  CHECK(AwaitSaved(saver.store.get()).done.error.find("free space there") != std::string::npos);
}

TEST_CASE("a file that may not grow any more is named") {
  SavingServer saver(StoreConfig());
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(1, 1.0f);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const CheckpointDone failed = saver.Save(2, {CheckpointName(1)});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  signal(SIGXFSZ, handler);
  INFO(failed.error);
  CHECK(failed.error.find("File too large") != std::string::npos);
  CHECK(saver.Health(1).damage.empty());
  CHECK(saver.Save(3, {CheckpointName(1)}).error == "");
  saver.CheckRestores(3);
}

TEST_CASE("a place that is no directory is named") {
  SavingServer saver(StoreConfig());
  const std::string file = saver.directory.path() + "/file";
  std::ofstream(file) << "x";
  const CheckpointDone done =
      SaveOnce(saver.store.get(), saver.cluster.executors(),
               {1, CheckpointName(1), file + "/" + CheckpointName(1), ShardName(1, 0), {}, {}});
  CHECK(done.error.find(file + "/store-") == 0);
  CHECK(done.error.find("set checkpoint.directory") != std::string::npos);
}

TEST_CASE("a store gives up at once, and leaves nothing behind") {
  SavingServer saver(StoreConfig());
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(1, 1.0f);
  SUBCASE("a save that an executor does not take part in") {
    saver.store->Begin({2, CheckpointName(2), saver.Path(2), ShardName(1, 0), {}, {}, 2, 0});
    saver.store->GiveUp("an executor stands elsewhere", true);
    const CheckpointDone done = AwaitSaved(saver.store.get()).done;
    CHECK(done.retry);
    CHECK(done.error == "an executor stands elsewhere");
    CHECK(saver.Save(3).error == "");
  }
  SUBCASE("a save in the middle of which the server ends") {
    saver.store->Begin(
        {2, CheckpointName(2), saver.Path(2), ShardName(1, 0), {CheckpointName(1)}, {}, 2, 0});
    Executor* first = saver.cluster.executors()[0];
    first->BeginSnapshot(saver.store.get());
    while (first->snapshot_in_progress()) {
      if (!first->AdvanceSnapshot()) std::this_thread::yield();
    }
    saver.store.reset();
    CHECK_FALSE(fs::exists(saver.directory.path() + "/" + StoreName(kStoreLife)));
    CHECK(saver.Health(1).damage.empty());
  }
}

}  // namespace
}  // namespace dslide::store_failures_test
