// Rows to disk and back, over other numbers of servers and executors.
#include "server/storage/checkpoint.h"
#include "common/checkpoint/layout.h"

#include <fstream>

#include "server/storage/checkpoint_source.h"
#include "server/storage/shard_directory.h"
#include "tests/server/support/local_cluster.h"
#include "tests/server/support/saving.h"
#include "tests/support/temp_directory.h"

namespace dslide::checkpoint_test {
namespace {

namespace fs = std::filesystem;

// A checkpoint's place: stores lie beside it.
class Place {
 public:
  std::string path() const { return directory_.path() + "/step-000000000006"; }

 private:
  TempDirectory directory_;
};

Config HashedConfig(OptimizerKind optimizer = OptimizerKind::kAdam) {
  Config config = SmallConfig(40, 100, 8);
  config.model.active = ActiveSet::kLsh;
  config.model.candidates = 10;
  config.model.negatives = 15;
  config.hash.k = 1;
  config.hash.tables = 1;
  config.train.optimizer = optimizer;
  config.train.learning_rate = 0.02f;
  config.train.batch = 8;
  return config;
}

LeaseBatch BatchNumber(const Config& config, uint64_t number) {
  Random random(number);
  return RandomBatch(config, config.train.batch, 3, &random);
}

void TrainSome(LocalCluster* cluster, uint64_t first, uint64_t end) {
  for (uint64_t step = first; step < end; ++step) {
    cluster->Train(BatchNumber(cluster->config(), step), step);
  }
}

// Each server of the cluster writes a shard, and the manifest comes last. `directory` is the
// checkpoint's.
Manifest Save(LocalCluster* cluster, uint32_t servers, const std::string& directory) {
  Manifest manifest;
  manifest.name = "step-000000000006";
  manifest.config = FormatConfig(cluster->config());
  for (uint32_t s = 0; s < servers; ++s) {
    const std::string name = "server-" + std::to_string(s);
    CheckpointStore store({name + "-0000000000000001"}, {});
    std::vector<Executor*> executors;
    for (const auto& executor : cluster->server(s)) executors.push_back(executor.get());
    const CheckpointDone done =
        SaveOnce(&store, executors, {1, manifest.name, directory, ShardName(1, s), {}, {}});
    REQUIRE(done.error == "");
    for (Executor* executor : executors) executor->AbortSnapshot();  // the next one is whole again
    manifest.shards.push_back(ShardOf(done, name));
  }
  REQUIRE(WriteManifest(directory, manifest).ok());
  return manifest;
}

// The first error of opening the checkpoint or restoring any executor of the cluster.
Status Restore(LocalCluster* cluster, const std::string& directory) {
  const auto shards = CheckpointShards::Open(directory);
  DSLIDE_RETURN_IF_ERROR(shards);
  for (Executor* executor : cluster->executors()) {
    DSLIDE_RETURN_IF_ERROR((*shards)->Restore(executor));
  }
  return {};
}

// Everything that is kept of a row: weights, moments, scalars, codes.
std::vector<uint8_t> StoredForm(LocalCluster* cluster, LayerKind kind, uint32_t id) {
  for (Executor* executor : cluster->executors()) {
    Layer& layer =
        kind == LayerKind::kInput ? executor->input().layer() : executor->output().layer();
    const uint32_t row = layer.map().Local(id);
    if (row == SlotMap::kNone) continue;
    std::vector<uint8_t> bytes(layer.RowBytes());
    layer.StoreRow(row, bytes.data());
    if (kind == LayerKind::kOutput && executor->output().index() != nullptr) {
      const auto codes = executor->output().index()->tables().tables().Codes(row);
      const auto* at = reinterpret_cast<const uint8_t*>(codes.data());
      bytes.insert(bytes.end(), at, at + codes.size() * sizeof(BucketCode));
    }
    return bytes;
  }
  return {};
}

void CheckSameRows(LocalCluster* a, LocalCluster* b) {
  const ModelConfig& model = a->config().model;
  bool same = true;
  for (uint32_t f = 0; f <= model.features; ++f) {
    same = same && StoredForm(a, LayerKind::kInput, f) == StoredForm(b, LayerKind::kInput, f);
  }
  for (uint32_t n = 0; n < model.labels; ++n) {
    same = same && StoredForm(a, LayerKind::kOutput, n) == StoredForm(b, LayerKind::kOutput, n);
  }
  CHECK(same);
}

// The largest first.
std::vector<fs::path> FilesWith(const std::string& directory, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return fs::file_size(a) > fs::file_size(b);
  });
  return files;
}

bool Mentions(const Status& status, const std::string& text) {
  return !status.ok() && status.error().message.find(text) != std::string::npos;
}

TEST_CASE("a checkpoint of three executors in two shards fits any number of executors") {
  for (const OptimizerKind optimizer :
       {OptimizerKind::kAdam, OptimizerKind::kAdaGrad, OptimizerKind::kSgd}) {
    const Place directory;
    const Config config = HashedConfig(optimizer);
    LocalCluster saved(config, 1000, {2, 1});
    TrainSome(&saved, 0, 6);
    const Manifest manifest = Save(&saved, 2, directory.path());
    CHECK(manifest.shards[0].rows + manifest.shards[1].rows == 41 + 100);  // 3 executors' records
    for (const std::vector<uint32_t>& executors :
         {std::vector<uint32_t>{1}, {5}, {2, 1}, {1, 1, 3}}) {
      LocalCluster restored(config, 1000, executors, false);
      REQUIRE(Restore(&restored, directory.path()).ok());
      CheckSameRows(&saved, &restored);
    }
  }
}

TEST_CASE("reading a checkpoint can be given up") {
  const Place directory;
  LocalCluster saved(HashedConfig(), 1000, {1});
  Save(&saved, 1, directory.path());
  LocalCluster restored(HashedConfig(), 1000, {1}, false);
  CheckpointSource source(directory.path(), {AllSlots(HashedConfig().cluster)}, 1);
  source.Cancel();
  const Status given_up = source.Load(restored.executors()[0]);
  REQUIRE(Mentions(given_up, "reading was given up"));
  CHECK(given_up.error().kind == ErrorKind::kTryLater);
}

TEST_CASE("a checkpoint of a bf16 model fits any number of executors, bit by bit") {
  for (const MomentPrecision moments : {MomentPrecision::kBf16, MomentPrecision::kFp32}) {
    const Place directory;
    Config config = HashedConfig();
    config.model.precision = Precision::kBf16;
    config.model.products = Products::kBf16;
    config.train.moments = moments;
    LocalCluster saved(config, 1000, {2, 1});
    TrainSome(&saved, 0, 6);
    Save(&saved, 2, directory.path());
    for (const std::vector<uint32_t>& executors :
         {std::vector<uint32_t>{1}, {5}, {2, 1}, {1, 1, 3}}) {
      LocalCluster restored(config, 1000, executors, false);
      REQUIRE(Restore(&restored, directory.path()).ok());
      CheckSameRows(&saved, &restored);
    }
    // And goes on as without it: the rounding depends on nothing that is not stored.
    LocalCluster restored(config, 1000, {2, 1}, false);
    REQUIRE(Restore(&restored, directory.path()).ok());
    for (uint64_t step = 6; step < 9; ++step) {
      CHECK(saved.Train(BatchNumber(config, step), step) ==
            restored.Train(BatchNumber(config, step), step));
    }
    CheckSameRows(&saved, &restored);
    // Another precision of weights or moments is another size of rows, and is named.
    Config other = config;
    other.train.moments =
        moments == MomentPrecision::kBf16 ? MomentPrecision::kFp32 : MomentPrecision::kBf16;
    LocalCluster misfit(other, 1000, {1}, false);
    CHECK(Mentions(Restore(&misfit, directory.path()), "does not fit the model"));
  }
}

TEST_CASE("what is missing or damaged is named") {
  const Place directory;
  const std::string path = directory.path();
  const Config config = HashedConfig();
  LocalCluster saved(config, 1000, {2, 1});
  TrainSome(&saved, 0, 2);
  Save(&saved, 2, path);
  LocalCluster restored(config, 1000, {2}, false);

  SUBCASE("missing shard") {
    fs::remove_all(path + "/shard-1-1");
    const Status status = Restore(&restored, path);
    CHECK(Mentions(status, path));
    CHECK(Mentions(status, " rows in the 1 shard here, without shard-1-1 of server-1; copy"));
    CHECK_FALSE(fs::exists(path + "/shard-1-1"));  // reading creates nothing
  }
  SUBCASE("truncated data file") {
    const auto files = FilesWith(path + "/shard-1-0", ".sst");
    REQUIRE_FALSE(files.empty());
    fs::resize_file(files[0], fs::file_size(files[0]) / 2);
    CHECK(Mentions(Restore(&restored, path), path + "/shard-1-0"));
  }
  SUBCASE("a changed byte in a data file") {
    const auto files = FilesWith(path + "/shard-1-0", ".sst");
    REQUIRE_FALSE(files.empty());
    std::fstream file(files[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(300);
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(300);
    file.put(byte);
    file.close();
    const Status status = Restore(&restored, path);
    REQUIRE_FALSE(status.ok());
    INFO(status.error().message);
    CHECK(status.error().message.find(files[0].string() + ": damaged") == 0);
  }
  SUBCASE("more neurons than were saved") {
    Config more = config;
    more.model.labels = 101;
    LocalCluster other(more, 1000, {1}, false);
    CHECK(Mentions(Restore(&other, path), " rows"));
  }
}

}  // namespace
}  // namespace dslide::checkpoint_test
