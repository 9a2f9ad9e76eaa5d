// An executor's state to a checkpoint and back: it goes on bit for bit, and no batch counts twice.
#include "tests/server/support/training_run.h"

namespace dslide::executor_state_test {
namespace {

using Share = AppliedBatches::Share;

// An executor per entry of `slots`, with that many of the slots each.
std::vector<std::unique_ptr<Executor>> Executors(const Config& config,
                                                 const std::vector<uint32_t>& slots) {
  std::vector<std::unique_ptr<Executor>> executors;
  const std::vector<SlotId> all = AllSlots(config);
  size_t begin = 0;
  for (const uint32_t count : slots) {
    executors.push_back(std::make_unique<Executor>(config, kRunSamples,
                                                   std::span(all).subspan(begin, count),
                                                   Purpose::kTraining, BestKernels()));
    LimitMemory(config, executors.back().get());
    begin += count;
  }
  return executors;
}

// Replaces the state of all executors of a cluster that was not initialised.
void Load(LocalCluster* cluster, const MemoryStore& store) {
  for (Executor* executor : cluster->executors()) {
    const Status status = store.Load(executor);
    REQUIRE_MESSAGE(status.ok(), status.error().message);
  }
}

void SaveAll(LocalCluster* cluster, MemoryStore* store) {
  const std::vector<Executor*> executors = cluster->executors();
  for (uint32_t i = 0; i < executors.size(); ++i) store->Save(executors[i], i);
}

void CheckSameState(LocalCluster* a, LocalCluster* b) {
  for (size_t i = 0; i < a->executors().size(); ++i) {
    CHECK(StateOf(a->executors()[i]) == StateOf(b->executors()[i]));
  }
}

TEST_CASE("restored executors go on bit for bit, and their next snapshots have what changed") {
  for (const RunKind& kind : AllRunKinds()) {
    CAPTURE(kind);
    const Config config = RunConfig(kind);
    LocalCluster undisturbed(config, kRunSamples, {2});
    TrainRun(&undisturbed, 0, 32);
    for (const uint64_t cut : {2, 14, 22}) {
      CAPTURE(cut);
      MemoryStore store;
      {
        LocalCluster saved(config, kRunSamples, {2});
        TrainRun(&saved, 0, 2);
        SaveAll(&saved, &store);
        TrainRun(&saved, 2, cut);
        SaveAll(&saved, &store);
      }
      LocalCluster restored(config, kRunSamples, {2}, false);
      Load(&restored, store);
      for (Executor* executor : restored.executors()) executor->AssumeStored();
      TrainRun(&restored, cut, 26);
      SaveAll(&restored, &store);
      for (uint32_t i = 0; i < 2; ++i) CHECK(store.written(i).size() < store.rows.size() / 2);
      LocalCluster again(config, kRunSamples, {2}, false);
      Load(&again, store);
      TrainRun(&again, 26, 32);
      CheckSameState(&undisturbed, &again);
    }
  }
}

TEST_CASE("restored executors with dense layers go on bit for bit, also over other executors") {
  for (RunKind kind : AllRunKinds()) {
    if (kind.active != ActiveSet::kMass) continue;
    CAPTURE(kind);
    Config config = RunConfig(kind);
    config.model.dense = {12, 8};
    LocalCluster undisturbed(config, kRunSamples, {2});
    TrainRun(&undisturbed, 0, 20);
    MemoryStore store;
    LocalCluster saved(config, kRunSamples, {2});
    TrainRun(&saved, 0, 12);
    SaveAll(&saved, &store);
    LocalCluster restored(config, kRunSamples, {2}, false);
    Load(&restored, store);
    TrainRun(&restored, 12, 20);
    CheckSameState(&undisturbed, &restored);
    LocalCluster others(config, kRunSamples, {3}, false);
    for (Executor* executor : others.executors()) {
      const Status status = store.Load(executor);
      CHECK_MESSAGE(status.ok(), status.error().message);
    }
  }
}

TEST_CASE(
    "restored over other executors: rows, codes and buckets are there, and batches count once") {
  const Config config = RunConfig({OptimizerKind::kAdam, false, ActiveSet::kLsh, false});
  LocalCluster saved(config, kRunSamples, {3});
  TrainRun(&saved, 0, 11);
  MemoryStore store;
  SaveAll(&saved, &store);
  for (const std::vector<uint32_t>& slots : {std::vector<uint32_t>{8}, {1, 7}, {4, 2, 2}}) {
    auto executors = Executors(config, slots);
    for (auto& executor : executors) {
      REQUIRE(store.Load(executor.get()).ok());
      CHECK(executor->applied().groups().size() == 1);
      CHECK(executor->applied().Has(Part::kOutput, 10) == Share::kAll);
      CHECK(executor->applied().Has(Part::kInput, 10) == Share::kAll);
      CHECK(executor->applied().Has(Part::kInput, 11) == Share::kNone);
      const SlotMap& map = executor->output().layer().map();
      const HashTables& tables = executor->output().index()->tables().tables();
      for (Executor* old : saved.executors()) {
        const SlotMap& old_map = old->output().layer().map();
        const HashTables& old_tables = old->output().index()->tables().tables();
        for (uint32_t id = 0; id < config.model.labels; ++id) {
          if (old_map.Local(id) == SlotMap::kNone || map.Local(id) == SlotMap::kNone) continue;
          const uint32_t row = map.Local(id), old_row = old_map.Local(id);
          REQUIRE(tables.Codes(row) == old_tables.Codes(old_row));
          REQUIRE(executor->output().index()->tables().IsChanged(row) ==
                  old->output().index()->tables().IsChanged(old_row));
        }
        const BuiltCodes built = tables.Built(), old_built = old_tables.Built();
        for (uint32_t id = 0; id < config.model.labels; ++id) {
          if (old_map.Local(id) == SlotMap::kNone || map.Local(id) == SlotMap::kNone) continue;
          for (uint32_t t = 0; t < tables.size(); ++t) {
            REQUIRE(built.codes[size_t{t} * map.rows() + map.Local(id)] ==
                    old_built.codes[size_t{t} * old_map.rows() + old_map.Local(id)]);
          }
        }
      }
    }
  }
}

TEST_CASE("inference: weights without moments, all codes fresh, no record needed") {
  const Config config = RunConfig({OptimizerKind::kAdam, false, ActiveSet::kLsh, false});
  LocalCluster saved(config, kRunSamples, {2});
  TrainRun(&saved, 0, 7);
  MemoryStore store;
  SaveAll(&saved, &store);
  store.records.clear();
  Executor reader(config, kRunSamples, AllSlots(config), Purpose::kInference, BestKernels());
  REQUIRE(store.Load(&reader).ok());
  const SlotMap& map = reader.output().layer().map();
  for (uint32_t id = 0; id < config.model.labels; ++id) {
    const RowView row = saved.Row(LayerKind::kOutput, id);
    REQUIRE(std::equal(row.weights, row.weights + config.model.hidden,
                       reader.output().layer().weights(map.Local(id))));
    REQUIRE_FALSE(reader.output().index()->tables().IsChanged(map.Local(id)));
  }
}

std::string LoadError(const Config& config, const MemoryStore& store) {
  Executor executor(config, kRunSamples, AllSlots(config), Purpose::kTraining, BestKernels());
  const Status status = store.Load(&executor);
  return status.ok() ? "" : status.error().message;
}

TEST_CASE("rows and records that do not fit are named") {
  const RunKind kind = {OptimizerKind::kAdaGrad, false, ActiveSet::kLsh, true};
  const Config config = RunConfig(kind);
  MemoryStore store;
  LocalCluster cluster(config, kRunSamples, {1});
  TrainRun(&cluster, 0, 4);
  SaveAll(&cluster, &store);
  REQUIRE(LoadError(config, store).empty());
  const StoredRowKey key{LayerKind::kOutput, {3}, 5};
  const auto fails_with = [&](const MemoryStore& with, const std::string& text) {
    const std::string error = LoadError(config, with);
    CAPTURE(error);
    CHECK(error.find(text) != std::string::npos);
  };
  MemoryStore other = store;
  other.rows[key].pop_back();
  fails_with(other, "output row 5 of slot 3 does not fit the model");
  other = store;
  const size_t row_bytes = cluster.executors()[0]->output().layer().RowBytes();
  other.rows[key][row_bytes + 1] = 0x7f;  // in no bucket
  fails_with(other, "output row 5 of slot 3 does not fit the model");
  other = store;
  other.rows[{LayerKind::kInput, {0}, 1000}] = {};
  fails_with(other, "input row 1000 of slot 0 does not fit the model");
  other = store;
  other.records.clear();
  fails_with(other, "records: 0, slots needed: 8;");
  other = store;
  other.records[1] = other.records[0];
  fails_with(other, "records: 16, slots needed: 8;");
  other = store;
  other.records[0].resize(20);
  fails_with(other, "damaged");
  auto record = ExecutorRecord::Decode(store.records[0]);
  REQUIRE(record.ok());
  record->hash->build.table = 5;
  other.records[0] = record->Encode();
  fails_with(other, "does not fit the model");
}

TEST_CASE(
    "rows that were stored without a mass are loaded, and are as neurons that were never active") {
  const Config config = RunConfig({OptimizerKind::kAdaGrad, false, ActiveSet::kMass, false});
  LocalCluster cluster(config, kRunSamples, {1});
  TrainRun(&cluster, 0, 4);
  MemoryStore store;
  SaveAll(&cluster, &store);
  const StoredRowKey key{LayerKind::kOutput, {3}, 5};
  MemoryStore cut = store;
  for (auto& [row, bytes] : cut.rows) {
    if (row.layer == LayerKind::kOutput) bytes.resize(bytes.size() - sizeof(float));
  }
  Executor executor(config, kRunSamples, AllSlots(config), Purpose::kTraining, BestKernels());
  const Status loaded = cut.Load(&executor);
  REQUIRE_MESSAGE(loaded.ok(), loaded.error().message);
  Layer& layer = executor.output().layer();
  const Layer& trained = cluster.executors()[0]->output().layer();
  std::vector<float> one(layer.dim()), other(layer.dim());
  for (uint32_t row = 0; row < layer.map().rows(); ++row) {
    CHECK(layer.mass(row) == 0);
    layer.Gather({&row, 1}, one.data());
    trained.Gather({&row, 1}, other.data());
    CHECK(one == other);
  }
  cut.rows[key].pop_back();
  CHECK(LoadError(config, cut)
            .find("output row 5 of slot 3 does not fit the model: it is too short") !=
        std::string::npos);
  // An input row never had one.
  store.rows[{LayerKind::kInput, {3}, 5}].resize(store.rows[{LayerKind::kInput, {3}, 5}].size() -
                                                 sizeof(float));
  CHECK(LoadError(config, store).find("input row 5 of slot 3 does not fit the model") !=
        std::string::npos);
}

TEST_CASE("records of different steps are refused") {
  const Config config = RunConfig({OptimizerKind::kAdaGrad, false, ActiveSet::kLsh, true});
  MemoryStore store;
  LocalCluster cluster(config, kRunSamples, {2});
  TrainRun(&cluster, 0, 4);
  SaveAll(&cluster, &store);
  auto record = ExecutorRecord::Decode(store.records[1]);
  REQUIRE(record.ok());
  CHECK(record->committed == 2u);
  REQUIRE(LoadError(config, store).empty());
  record->committed = 3;
  store.records[1] = record->Encode();
  CHECK(LoadError(config, store).find("different steps") != std::string::npos);
}

}  // namespace
}  // namespace dslide::executor_state_test
