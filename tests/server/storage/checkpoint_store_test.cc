// A server's store: increments, what it goes on from, what is removed.
#include "server/storage/checkpoint_store.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/disk_use.h"
#include "server/storage/checkpoint_source.h"
#include "server/storage/shard_directory.h"
#include "tests/server/support/saving_server.h"
#include "tests/server/support/slot_move.h"
#include "tests/support/results.h"

namespace dslide::checkpoint_store_test {
namespace {

namespace fs = std::filesystem;

// A disk on which a compaction does not get on while it is held.
class HeldDisk final : public rocksdb::EnvWrapper {
 public:
  HeldDisk() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "HeldDisk"; }

  std::atomic<bool> hold = false;
  std::atomic<bool> waits = false;

  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    const std::string name = fs::path(path).filename();
    if (hold && name.ends_with(".sst") && !name.starts_with("new-")) {  // RocksDB's own
      waits = true;
      waits.notify_all();
      hold.wait(true);
    }
    return target()->NewWritableFile(path, file, options);
  }
};

TEST_CASE("an increment after 1% of the rows changed writes at most 2% of the bytes") {
  SavingServer saver(StoreConfig());
  const CheckpointDone full = saver.Save(1);
  REQUIRE(full.error == "");
  CHECK(full.rows == 401 + 20000);
  CHECK(full.written_bytes == full.bytes);
  saver.Touch(100, 0.5f);
  const CheckpointDone next = saver.Save(2, {CheckpointName(1)});
  REQUIRE(next.error == "");
  CHECK(next.rows == full.rows);
  CHECK(next.written_bytes * 50 <= full.bytes);
  saver.CheckRestores(2);
  for (const uint64_t n : {1, 2}) {
    CHECK(saver.Health(n).damage.empty());
    CHECK(saver.Health(n).rows == full.rows);
  }
  CHECK(saver.Health(1).checksum != saver.Health(2).checksum);
}

TEST_CASE("what many increments replaced is removed, and checkpoints stay complete") {
  SavingServer saver(StoreConfig());
  uint64_t most = 0;
  const uint64_t full = saver.Save(1).bytes;
  for (uint64_t n = 2; n < 12; ++n) {
    saver.Touch(2, 0.25f);
    const CheckpointDone done = saver.Save(n, {CheckpointName(n - 1)});
    REQUIRE(done.error == "");
    most = std::max(most, done.bytes);
    CHECK(saver.Health(n).damage.empty());
    CHECK_FALSE(fs::exists(saver.Path(n - 2)));  // not kept
  }
  CHECK(most < 3 * full);
  saver.CheckRestores(11);
}

TEST_CASE("checkpoints are written while the store is compacted") {
  HeldDisk disk;
  SavingServer saver(StoreConfig(), &disk);
  disk.hold = true;
  for (uint64_t n = 1; n <= 3; ++n) {
    REQUIRE(saver.Save(n, {CheckpointName(n - 1)}).error == "");
    saver.Touch(1, 0.5f);
  }
  disk.waits.wait(false);  // the third one has made the store worn
  for (uint64_t n = 4; n <= 5; ++n) {
    REQUIRE(saver.Save(n, {CheckpointName(n - 1)}).error == "");
    CHECK(saver.Health(n).damage.empty());
    saver.CheckRestores(n);
    saver.Touch(2, 0.5f);
  }
  disk.hold = false;
  disk.hold.notify_all();
  REQUIRE(saver.Save(6, {CheckpointName(5)}).error == "");
  CHECK(saver.Health(6).damage.empty());
  saver.CheckRestores(6);
}

TEST_CASE("rows that change while they are written are stored as they were, whatever their order") {
  SavingServer saver(StoreConfig());
  REQUIRE(saver.Save(1).error == "");
  for (Executor* executor : saver.cluster.executors()) executor->ForgetStored();
  // All copies together take more than they may, so they come first, and then what did not change.
  const CheckpointDone full =
      saver.Save(2, {CheckpointName(1)}, [&] { saver.Touch(2, 0.5f), saver.Touch(3, 0.5f); });
  REQUIRE(full.error == "");
  CHECK(saver.Health(2).damage.empty());
  CHECK(saver.Health(2).rows == full.rows);
  CHECK(saver.Health(2).checksum == saver.Health(1).checksum);
  REQUIRE(saver.Save(3, {CheckpointName(2)}, [&] { saver.Touch(2, 0.5f); }).error == "");
  CHECK(saver.Health(3).checksum != saver.Health(2).checksum);
  REQUIRE(saver.Save(4, {CheckpointName(3)}).error == "");
  saver.CheckRestores(4);
}

TEST_CASE("a restored server's first checkpoint is an increment") {
  SavingServer saver(StoreConfig());
  const CheckpointDone full = saver.Save(1);
  saver.store.reset();
  const auto shards = Ok(CheckpointShards::Open(saver.Path(1)));
  const auto all = AllSlots(saver.config);
  // The first half of the slots, of those that the shard has.
  const std::vector<SlotId> own(all.begin(), all.begin() + 4);
  const auto base = shards->BaseFor(own, 401 + 20000);
  REQUIRE(base.ok());
  CHECK(base->slots == all);
  Executor executor(saver.config, 1000, own, Purpose::kTraining, BestKernels());
  REQUIRE(shards->Restore(&executor, *base).ok());
  CheckpointStore store({"server-0000000000000002"}, *base);
  const CheckpointDone done =
      SaveOnce(&store, {&executor},
               {1, CheckpointName(2), saver.Path(2), ShardName(2, 0), {CheckpointName(1)}, {}});
  REQUIRE(done.error == "");
  CHECK(done.written_bytes * 50 <= full.bytes);
  // It has the rows of its slots and no others.
  Executor again(saver.config, 1000, own, Purpose::kTraining, BestKernels());
  const auto half = Ok(CheckpointShards::Open(saver.Path(2)));
  CHECK(half->Restore(&again).ok());
  Executor other(saver.config, 1000, std::vector<SlotId>(all.begin() + 4, all.end()),
                 Purpose::kTraining, BestKernels());
  CHECK_FALSE(half->Restore(&other).ok());
}

TEST_CASE("a restored server does not go on from a shard of which most is old") {
  SavingServer saver(StoreConfig());
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(1, 0.5f);
  REQUIRE(saver.Save(2, {CheckpointName(1)}).error == "");  // it is compacted after that
  const auto all = AllSlots(saver.config);
  const auto base = [&](uint64_t n, uint64_t rows) {
    const auto shards = Ok(CheckpointShards::Open(saver.Path(n)));
    return shards->BaseFor(all, rows)->directory;
  };
  // Not every row was touched, so the server has a few less than the shard here.
  CHECK(base(1, 18000) == saver.Path(1) + "/" + ShardName(1, 0));
  CHECK(base(2, 18000) == "");
  CHECK(base(1, 10000) == "");  // most of its rows are other servers'
}

TEST_CASE("a restored server does not go on from a shard that has few of an executor's slots") {
  SavingServer saver(StoreConfig());
  saver.Save(1);
  const auto all = AllSlots(saver.config);
  const std::vector<SlotId> some(all.begin(), all.begin() + 4);
  CheckpointSource whole(saver.Path(1), {some, {all.begin() + 4, all.end()}}, 401 + 20000);
  CheckpointSource part(saver.Path(1), {{all.front(), {77}}}, 401 + 20000);
  for (CheckpointSource* source : {&whole, &part}) {
    Executor executor(saver.config, 1000, some, Purpose::kTraining, BestKernels());
    REQUIRE(source->Load(&executor).ok());
  }
  CHECK(whole.base().directory == saver.Path(1) + "/" + ShardName(1, 0));
  CHECK(part.base().directory == "");
}

TEST_CASE("a shard has the slots that its server has at the mark, wherever they were before") {
  SavingServer saver(StoreConfig());
  const auto executors = saver.cluster.executors();
  CheckpointStore stores[] = {CheckpointStore({"a-0000000000000001"}, {}),
                              CheckpointStore({"b-0000000000000001"}, {})};
  const auto save = [&](uint64_t n) {
    Manifest manifest;
    manifest.name = CheckpointName(n);
    manifest.config = FormatConfig(saver.config);
    for (uint32_t s = 0; s < 2; ++s) {
      const CheckpointDone done =
          SaveOnce(&stores[s], {executors[s]},
                   {n, manifest.name, saver.Path(n), ShardName(1, s), {CheckpointName(n - 1)}, {}});
      REQUIRE(done.error == "");
      manifest.shards.push_back(ShardOf(done, "server"));
    }
    REQUIRE(WriteManifest(saver.Path(n), manifest).ok());
    const CheckpointHealth health = saver.Health(n);  // each row once
    CHECK(health.damage.empty());
    CHECK(health.rows == 401 + 20000);
    saver.CheckRestores(n);
    return manifest.shards;
  };
  const auto rows_before = save(1)[0].rows;
  SlotMove there(executors, 0, 1, {2});
  there.CopyColdRows();
  saver.Touch(50, 0.5f);
  there.Finish();
  const auto shards = save(2);
  CHECK(shards[0].rows < rows_before);
  CHECK(shards[0].rows + shards[1].rows == 401 + 20000);
  saver.Touch(50, 0.5f);
  save(3);
  SlotMove back(executors, 1, 0, {2});
  back.Finish();
  saver.Touch(50, 0.5f);
  CHECK(save(4)[0].rows == rows_before);
  // There and back between two checkpoints.
  SlotMove(executors, 0, 1, {1}).Finish();
  saver.Touch(30, 0.5f);
  SlotMove(executors, 1, 0, {1}).Finish();
  save(5);
}

TEST_CASE("stores of a server's earlier lives are removed, and no others") {
  SavingServer saver(StoreConfig());
  const std::string in = saver.directory.path();
  for (const char* name :
       {"store-server-00000000000000aa", "store-server-2-00000000000000aa", "store-server-x"}) {
    fs::create_directories(in + "/" + name);
  }
  REQUIRE(saver.Save(1).error == "");
  CHECK_FALSE(fs::exists(in + "/store-server-00000000000000aa"));
  CHECK(fs::exists(in + "/store-server-2-00000000000000aa"));
  CHECK(fs::exists(in + "/store-server-x"));
  CHECK(StoreName("a/b-1") == "store-a%2fb-1");
}

TEST_CASE("a store that another process has open stays") {
  const TempDirectory directory;
  const std::string store = directory.path() + "/store-server-00000000000000aa";
  fs::create_directories(store);
  int locked[2], done[2];
  REQUIRE(pipe(locked) == 0);
  REQUIRE(pipe(done) == 0);
  const pid_t other = fork();
  if (other == 0) {
    const int fd = open((store + "/LOCK").c_str(), O_RDWR | O_CREAT, 0644);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (fd < 0 || fcntl(fd, F_SETLK, &lock) != 0) _exit(1);
    char byte = 1;
    close(done[1]);
    (void)!write(locked[1], &byte, 1);
    (void)!read(done[0], &byte, 1);  // until the parent closes it
    _exit(0);
  }
  close(locked[1]);
  char byte = 0;
  CHECK(read(locked[0], &byte, 1) == 1);
  RemoveOldStores(directory.path(), kStoreLife);
  CHECK(fs::exists(store));
  close(done[1]);
  int status = -1;
  CHECK(waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  RemoveOldStores(directory.path(), kStoreLife);
  CHECK_FALSE(fs::exists(store));
  for (const int fd : {locked[0], done[0]}) close(fd);
}

TEST_CASE("a server removes only what it may") {
  const TempDirectory directory;
  const std::string& in = directory.path();
  const auto make = [&](uint64_t n, uint32_t plan) {
    fs::create_directories(in + "/" + CheckpointName(n) + "/" + ShardName(plan, 0));
  };
  make(1, 1);
  make(2, 1);
  make(3, 2);  // of a later plan than the server's
  make(9, 1);  // newer than what it writes
  PruneShards(in, CheckpointName(5), {CheckpointName(2)}, 1, "");
  CHECK_FALSE(fs::exists(in + "/" + CheckpointName(1)));
  for (const uint64_t n : {2, 3, 9}) CHECK(fs::exists(in + "/" + CheckpointName(n)));
}

TEST_CASE("verify names every damaged file, by its checksum or its absence") {
  SavingServer saver(StoreConfig());
  const CheckpointDone done = saver.Save(1);
  const std::string shard = saver.Path(1) + "/" + done.shard;
  for (const ShardFile& file : done.files) {
    const std::string path = shard + "/" + file.name;
    if (file.bytes == 0) continue;
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(file.bytes / 2);
    bytes.seekg(at);
    const int old = bytes.get();
    const auto put = [&](int byte) {
      bytes.seekp(at);
      bytes.put(static_cast<char>(byte));
      bytes.flush();
    };
    put(old ^ 0x10);
    const CheckpointHealth health = saver.Health(1);
    REQUIRE(health.damage.size() == 1);
    CHECK(health.damage[0].find(path + ": damaged") == 0);
    put(old);
  }
  CHECK(saver.Health(1).damage.empty());
  fs::remove(shard + "/" + done.files[0].name);
  CHECK(saver.Health(1).damage.size() == 1);
  const auto opened = CheckpointShards::Open(saver.Path(1));
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().message.find(shard + "/" + done.files[0].name) == 0);
}

}  // namespace
}  // namespace dslide::checkpoint_store_test
