// Hash tables that are built anew by other functions while training goes on.
#include <numeric>

#include "tests/server/model/lsh/table_layer.h"
#include "tests/server/support/slot_move.h"
#include "tests/server/support/training_run.h"

namespace dslide::rebuild_test {
namespace {

const RunKind kHashed = {OptimizerKind::kAdaGrad, false, ActiveSet::kLsh, false};
const RunKind kHashedSteps = {OptimizerKind::kAdam, false, ActiveSet::kLsh, true};
constexpr HashChoice kOther = {1, 1};  // the run's own is {0, 2}
constexpr uint64_t kEnough = 40;       // batches until a rebuild is done

void Ask(Executor* executor, const HashChoice& choice) {
  REQUIRE(executor->Handle({1}, RebuildTables{choice.round, choice.k}) == Body{Ack{}});
}

void AskAll(LocalCluster* cluster, const HashChoice& choice) {
  for (Executor* executor : cluster->executors()) Ask(executor, choice);
}

bool AllUse(LocalCluster* cluster, const HashChoice& choice) {
  bool all = true;
  for (Executor* executor : cluster->executors()) {
    all = all && executor->output().index()->functions() == choice;
  }
  return all;
}

// Tables by other functions over the executor's weights as they are now.
LiveTables FreshTables(Executor* executor, const Config& config, const HashChoice& choice) {
  HashConfig hash = config.hash;
  hash.k = choice.k;
  uint64_t seed = SubSeed(config.common.seed, 0x4a5);
  if (choice.round > 0) seed = SubSeed(seed, choice.round);
  LiveTables fresh(hash, seed, executor->output().layer(), BestKernels());
  fresh.CatchUp();
  return fresh;
}

// Whether the tables are those, once they have caught up with the weights.
bool AreTablesOf(Executor* executor, const Config& config, const HashChoice& choice) {
  executor->output().index()->tables().CatchUp();
  const LiveTables fresh = FreshTables(executor, config, choice);
  return executor->output().index()->tables().identity() == fresh.identity() &&
         SameBuckets(executor->output().index()->tables(), fresh);
}

TEST_CASE("a rebuild changes nothing until it is done, and gives tables like fresh ones") {
  for (const RunKind& kind : {kHashed, kHashedSteps}) {
    const Config config = RunConfig(kind);
    LocalCluster cluster(config, kRunSamples, {2}), undisturbed(config, kRunSamples, {2});
    TrainRun(&cluster, 0, 6);
    TrainRun(&undisturbed, 0, 6);
    AskAll(&cluster, kOther);
    uint64_t number = 6;
    const uint32_t lag = FreshTables(cluster.executors()[0], config, kOther).lag_batches();
    for (; number < 6 + lag - lag % 2; number += 2) {
      CHECK(AllUse(&cluster, {0, 2}));
      CHECK(cluster.executors()[0]->MeasureTables()->hash_round == 0);
      for (size_t i = 0; i < 2; ++i) {
        CHECK(StateOf(cluster.executors()[i]) == StateOf(undisturbed.executors()[i]));
      }
      TrainRun(&cluster, number, number + 2);
      TrainRun(&undisturbed, number, number + 2);
    }
    TrainRun(&cluster, number, number + 2);
    REQUIRE(AllUse(&cluster, kOther));
    for (Executor* executor : cluster.executors()) {
      CHECK(executor->MeasureTables()->hash_round == 1);
      // Every row is in a bucket of every table.
      const LiveTables& tables = executor->output().index()->tables();
      const BuiltCodes built = tables.tables().Built();
      const SlotMap& map = executor->output().layer().map();
      for (uint32_t row = 0; row < map.rows(); ++row) {
        if (map.Global(row) != SlotMap::kNone) REQUIRE(built.codes[row] != kNoCode);
      }
    }
    TrainRun(&cluster, number + 2, number + 8);
    for (Executor* executor : cluster.executors()) CHECK(AreTablesOf(executor, config, kOther));
  }
}

TEST_CASE("what cannot be built is refused, the functions in use end a rebuild") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {1});
  Executor* executor = cluster.executors()[0];
  for (const uint32_t k : {0u, 6u, 0xffffffffu}) {
    const Body reply = executor->Handle({1}, RebuildTables{1, k});
    CHECK(std::holds_alternative<ErrorReply>(reply));
  }
  const uint64_t before = executor->MemoryBytes();
  Ask(executor, {0, 2});
  CHECK(executor->MemoryBytes() == before);
  Ask(executor, kOther);
  CHECK(executor->MemoryBytes() > before);
  Ask(executor, {0, 2});
  CHECK(executor->MemoryBytes() == before);
  // Another choice takes the place of one that is being built.
  Ask(executor, kOther);
  TrainRun(&cluster, 0, 8);
  Ask(executor, {2, 2});
  Ask(executor, {2, 2});
  TrainRun(&cluster, 8, 8 + kEnough);
  CHECK(executor->output().index()->functions() == HashChoice{2, 2});
  CHECK(AreTablesOf(executor, config, {2, 2}));

  const Config all = SmallConfig(20, 30, 4);
  LocalCluster without(all, kRunSamples, {1});
  CHECK(
      std::holds_alternative<ErrorReply>(without.executors()[0]->Handle({1}, RebuildTables{1, 1})));
}

TEST_CASE("a snapshot of a rebuild has the old tables, and the new ones wait for it") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {1}), undisturbed(config, kRunSamples, {1});
  Executor* executor = cluster.executors()[0];
  Ask(executor, kOther);
  TrainRun(&cluster, 0, 10);
  TrainRun(&undisturbed, 0, 10);
  MemoryStore store;
  store.Begin(executor);
  TrainRun(&cluster, 10, 10 + kEnough);
  CHECK(executor->output().index()->functions() == HashChoice{0, 2});
  while (executor->snapshot_in_progress()) executor->AdvanceSnapshot();
  TrainRun(&cluster, 10 + kEnough, 11 + kEnough);
  CHECK(executor->output().index()->functions() == kOther);
  // Whoever goes on from there has no rebuild.
  LocalCluster restored(config, kRunSamples, {1}, false);
  REQUIRE(store.Load(restored.executors()[0]).ok());
  TrainRun(&restored, 10, 10 + kEnough);
  TrainRun(&undisturbed, 10, 10 + kEnough);
  CHECK(StateOf(restored.executors()[0]) == StateOf(undisturbed.executors()[0]));
}

TEST_CASE("after a rebuild the next snapshot has all codes, and whoever is restored goes on") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {2});
  MemoryStore store;
  const auto save = [&] {
    for (uint32_t i = 0; i < 2; ++i) store.Save(cluster.executors()[i], i);
  };
  TrainRun(&cluster, 0, 4);
  save();
  AskAll(&cluster, {3, 1});
  TrainRun(&cluster, 4, 4 + kEnough);
  REQUIRE(AllUse(&cluster, {3, 1}));
  save();
  const uint64_t end = 4 + kEnough + 5;
  TrainRun(&cluster, 4 + kEnough, end);
  for (int again = 0; again < 2; ++again) {
    LocalCluster restored(config, kRunSamples, {2}, false);
    for (Executor* executor : restored.executors()) {
      REQUIRE(store.Load(executor).ok());
      executor->AssumeStored();
      CHECK(executor->output().index()->functions() == HashChoice{3, 1});
    }
    TrainRun(&restored, again == 0 ? 4 + kEnough : end, end);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(StateOf(restored.executors()[i]) == StateOf(cluster.executors()[i]));
    }
    save();
  }
  // For inference too.
  Executor reader(config, kRunSamples, AllSlots(config), Purpose::kInference, BestKernels());
  REQUIRE(store.Load(&reader).ok());
  CHECK(AreTablesOf(&reader, config, {3, 1}));
}

TEST_CASE("rows whose codes are by other functions are hashed, and stored again") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {2});
  MemoryStore store;
  Ask(cluster.executors()[1], kOther);
  TrainRun(&cluster, 0, kEnough);
  for (uint32_t i = 0; i < 2; ++i) store.Save(cluster.executors()[i], i);
  Executor one(config, kRunSamples, AllSlots(config), Purpose::kTraining, BestKernels());
  REQUIRE(store.Load(&one).ok());
  one.AssumeStored();
  CHECK(one.output().index()->functions() == kOther);
  CHECK(AreTablesOf(&one, config, kOther));
  store.records.clear();
  store.Save(&one);
  CHECK(store.written().size() >= config.model.labels / 2);
  Executor again(config, kRunSamples, AllSlots(config), Purpose::kTraining, BestKernels());
  REQUIRE(store.Load(&again).ok());
  CHECK(StateOf(&again) == StateOf(&one));
}

TEST_CASE("slots move between executors of other functions, and during rebuilds") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {2});
  const std::vector<Executor*> executors = cluster.executors();
  const auto check = [&](const HashChoice& first, const HashChoice& second) {
    CHECK(executors[0]->output().index()->functions() == first);
    CHECK(executors[1]->output().index()->functions() == second);
    CHECK(AreTablesOf(executors[0], config, first));
    CHECK(AreTablesOf(executors[1], config, second));
  };
  Ask(executors[1], kOther);
  TrainRun(&cluster, 0, 5);
  SlotMove(executors, 0, 1, {2}).Finish();  // while it rebuilds
  TrainRun(&cluster, 5, 5 + kEnough);
  check({0, 2}, kOther);
  SlotMove(executors, 1, 0, {6}).Finish();
  TrainRun(&cluster, 5 + kEnough, 5 + 2 * kEnough);
  check({0, 2}, kOther);
}

TEST_CASE("records with functions that the model cannot have are refused") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {1});
  MemoryStore store;
  store.Save(cluster.executors()[0]);
  auto record = ExecutorRecord::Decode(store.records[0]);
  REQUIRE(record.ok());
  CHECK(record->hashing == HashChoice{0, 2});
  const auto load = [&](const HashChoice& choice) {
    record->hashing = choice;
    store.records[0] = record->Encode();
    Executor executor(config, kRunSamples, AllSlots(config), Purpose::kTraining, BestKernels());
    return store.Load(&executor).ok();
  };
  CHECK(load({0, 2}));
  CHECK(load({0, 0}));        // written before there was a choice
  CHECK_FALSE(load({1, 9}));  // more bits than a code has
  CHECK_FALSE(load({1, 1}));  // codes that these functions do not give
}

TEST_CASE("a round of hash functions that is not newer is ignored") {
  const Config config = RunConfig(kHashed);
  LocalCluster cluster(config, kRunSamples, {1});
  Executor* executor = cluster.executors()[0];
  Ask(executor, {2, 2});
  SUBCASE("than the one that is being built") {}
  SUBCASE("than the one in use") {
    TrainRun(&cluster, 0, kEnough);
    REQUIRE(executor->output().index()->functions() == HashChoice{2, 2});
  }
  Ask(executor, {1, 1});
  Ask(executor, {2, 1});
  TrainRun(&cluster, kEnough, 2 * kEnough);
  CHECK(executor->output().index()->functions() == HashChoice{2, 2});
  Ask(executor, {3, 1});
  TrainRun(&cluster, 2 * kEnough, 3 * kEnough);
  CHECK(executor->output().index()->functions() == HashChoice{3, 1});
}

}  // namespace
}  // namespace dslide::rebuild_test
