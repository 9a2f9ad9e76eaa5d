// A server's store: increments, what stays after failures, what is removed.
#include "server/storage/checkpoint_store.h"
#include "common/checkpoint/disk_use.h"
#include "common/checkpoint/layout.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "server/storage/checkpoint.h"
#include "server/storage/checkpoint_source.h"
#include "server/storage/checkpoint_verify.h"
#include "server/storage/shard_directory.h"
#include "tests/server/support/local_cluster.h"
#include "tests/server/support/saving.h"
#include "tests/server/support/slot_move.h"
#include "tests/support/temp_directory.h"

namespace dslide::checkpoint_store_test {
namespace {

namespace fs = std::filesystem;

constexpr char kLife[] = "server-0000000000000001";

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

Config StoreConfig() {
  Config config = SmallConfig(400, 20000, 32);
  config.train.optimizer = OptimizerKind::kAdam;
  return config;
}

// One server of two executors, its store, and its checkpoints 1, 2, ...
struct Saver {
  explicit Saver(const Config& c, rocksdb::Env* env = nullptr, uint64_t disk_bytes = 0)
      : config(c),
        cluster(c, 1000, {2}),
        store(std::make_unique<CheckpointStore>(
            CheckpointStore::Place{kLife, size_t{1} << 20, env, disk_bytes},
            CheckpointStore::Base{})) {}

  std::string Path(uint64_t n) const { return directory.path() + "/" + CheckpointName(n); }

  CheckpointDone Save(
      uint64_t n, std::vector<std::string> keep = {}, const std::function<void()>& marked = [] {}) {
    CheckpointDone done =
        SaveOnce(store.get(), cluster.executors(),
                 {n, CheckpointName(n), Path(n), ShardName(1, 0), std::move(keep), {}}, marked);
    if (!done.error.empty()) return done;
    Manifest manifest;
    manifest.name = done.name;
    manifest.config = FormatConfig(config);
    manifest.shards = {ShardOf(done, "server")};
    REQUIRE(WriteManifest(Path(n), manifest).ok());
    return done;
  }
  // Changes every `stride`-th neuron.
  void Touch(uint32_t stride, float by) {
    for (Executor* executor : cluster.executors()) {
      Layer& layer = executor->output().layer();
      for (uint32_t n = 0; n < config.model.labels; n += stride) {
        const uint32_t row = layer.map().Local(n);
        if (row == SlotMap::kNone) continue;
        layer.changed().BeforeChange(row);
        layer.row(row).weights[0] += by;
      }
    }
  }
  CheckpointHealth Health(uint64_t n) const {
    const auto manifest = ReadManifest(Path(n));
    REQUIRE(manifest.ok());
    return VerifyCheckpoint(Path(n), *manifest);
  }
  // What a restored server has must be what this one has.
  void CheckRestores(uint64_t n) {
    LocalCluster restored(config, 1000, {3}, false);
    const auto shards = CheckpointShards::Open(Path(n));
    REQUIRE(shards.ok());
    bool same = true;
    for (Executor* executor : restored.executors()) REQUIRE((*shards)->Restore(executor).ok());
    for (uint32_t i = 0; i < config.model.labels; i += 7) {
      same = same && restored.Row(LayerKind::kOutput, i).weights[0] ==
                         cluster.Row(LayerKind::kOutput, i).weights[0];
    }
    CHECK(same);
  }

  Config config;
  TempDirectory directory;
  LocalCluster cluster;
  std::unique_ptr<CheckpointStore> store;
};

TEST_CASE("an increment after 1% of the rows changed writes at most 2% of the bytes") {
  Saver saver(StoreConfig());
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
  Saver saver(StoreConfig());
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
  Saver saver(StoreConfig(), &disk);
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
  Saver saver(StoreConfig());
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
  Saver saver(StoreConfig());
  const CheckpointDone full = saver.Save(1);
  saver.store.reset();
  const auto shards = CheckpointShards::Open(saver.Path(1));
  REQUIRE(shards.ok());
  const auto all = AllSlots(saver.config);
  // The first half of the slots, of those that the shard has.
  const std::vector<SlotId> own(all.begin(), all.begin() + 4);
  const auto base = (*shards)->BaseFor(own, 401 + 20000);
  REQUIRE(base.ok());
  CHECK(base->slots == all);
  Executor executor(saver.config, 1000, own, 0, Purpose::kTraining, BestKernels());
  REQUIRE((*shards)->Restore(&executor, *base).ok());
  CheckpointStore store({"server-0000000000000002"}, *base);
  const CheckpointDone done =
      SaveOnce(&store, {&executor},
               {1, CheckpointName(2), saver.Path(2), ShardName(2, 0), {CheckpointName(1)}, {}});
  REQUIRE(done.error == "");
  CHECK(done.written_bytes * 50 <= full.bytes);
  // It has the rows of its slots and no others.
  Executor again(saver.config, 1000, own, 0, Purpose::kTraining, BestKernels());
  const auto half = CheckpointShards::Open(saver.Path(2));
  REQUIRE(half.ok());
  CHECK((*half)->Restore(&again).ok());
  Executor other(saver.config, 1000, std::vector<SlotId>(all.begin() + 4, all.end()), 0,
                 Purpose::kTraining, BestKernels());
  CHECK_FALSE((*half)->Restore(&other).ok());
}

TEST_CASE("a restored server does not go on from a shard of which most is old") {
  Saver saver(StoreConfig());
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(1, 0.5f);
  REQUIRE(saver.Save(2, {CheckpointName(1)}).error == "");  // it is compacted after that
  const auto all = AllSlots(saver.config);
  const auto base = [&](uint64_t n, uint64_t rows) {
    const auto shards = CheckpointShards::Open(saver.Path(n));
    REQUIRE(shards.ok());
    return (*shards)->BaseFor(all, rows)->directory;
  };
  // Not every row was touched, so the server has a few less than the shard here.
  CHECK(base(1, 18000) == saver.Path(1) + "/" + ShardName(1, 0));
  CHECK(base(2, 18000) == "");
  CHECK(base(1, 10000) == "");  // most of its rows are other servers'
}

TEST_CASE("a restored server does not go on from a shard that has few of an executor's slots") {
  Saver saver(StoreConfig());
  saver.Save(1);
  const auto all = AllSlots(saver.config);
  const std::vector<SlotId> some(all.begin(), all.begin() + 4);
  CheckpointSource whole(saver.Path(1), {some, {all.begin() + 4, all.end()}}, 401 + 20000);
  CheckpointSource part(saver.Path(1), {{all.front(), {77}}}, 401 + 20000);
  for (CheckpointSource* source : {&whole, &part}) {
    Executor executor(saver.config, 1000, some, 0, Purpose::kTraining, BestKernels());
    REQUIRE(source->Load(&executor).ok());
  }
  CHECK(whole.base().directory == saver.Path(1) + "/" + ShardName(1, 0));
  CHECK(part.base().directory == "");
}

TEST_CASE("a shard has the slots that its server has at the mark, wherever they were before") {
  Saver saver(StoreConfig());
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

TEST_CASE("a failing disk is named, and hurts neither the last checkpoint nor the next") {
  FailingDisk disk;
  Saver saver(StoreConfig(), &disk);
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
  Saver saver(StoreConfig(), &disk);
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
  Saver roomy(StoreConfig());
  REQUIRE(roomy.Save(1).error == "");
  const uint64_t whole = BytesUnder({roomy.directory.path()});  // the store and its checkpoint
  constexpr uint64_t kMb = 1 << 20;
  REQUIRE(whole > kMb);
  Saver saver(StoreConfig(), nullptr, whole + whole / 2);
  REQUIRE(saver.Save(1).error == "");
  saver.Touch(1, 1.0f);
  const CheckpointDone failed = saver.Save(2, {CheckpointName(1)});
  CHECK(failed.error == saver.directory.path() + ": checkpoints would take more than the " +
                            std::to_string((whole + whole / 2) / kMb) + " MB of idle.disk_mb");
  CHECK(saver.Health(1).damage.empty());
  CHECK(BytesUnder({saver.directory.path()}) <= whole + whole / 2);
  saver.Touch(1, -1.0f);
  Saver small(StoreConfig(), nullptr, whole / 2);
  CHECK(small.Save(1).error.find("idle.disk_mb") != std::string::npos);
}

TEST_CASE("a write that fails after another executor's end still ends the save") {
  FailingDisk disk;
  Saver saver(StoreConfig(), &disk);
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
  Saver saver(StoreConfig());
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
  Saver saver(StoreConfig());
  const std::string file = saver.directory.path() + "/file";
  std::ofstream(file) << "x";
  const CheckpointDone done =
      SaveOnce(saver.store.get(), saver.cluster.executors(),
               {1, CheckpointName(1), file + "/" + CheckpointName(1), ShardName(1, 0), {}, {}});
  CHECK(done.error.find(file + "/store-") == 0);
  CHECK(done.error.find("set checkpoint.directory") != std::string::npos);
}

TEST_CASE("a store gives up at once, and leaves nothing behind") {
  Saver saver(StoreConfig());
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
    CHECK_FALSE(fs::exists(saver.directory.path() + "/" + StoreName(kLife)));
    CHECK(saver.Health(1).damage.empty());
  }
}

TEST_CASE("stores of a server's earlier lives are removed, and no others") {
  Saver saver(StoreConfig());
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
  RemoveOldStores(directory.path(), kLife);
  CHECK(fs::exists(store));
  close(done[1]);
  int status = -1;
  CHECK(waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  RemoveOldStores(directory.path(), kLife);
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
  Saver saver(StoreConfig());
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
