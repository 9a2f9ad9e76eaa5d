// Synchronous training by executors: what a step's batches do, in whatever order and by whom.

#include "server/executor/gather.h"
#include "server/executor/request_round.h"
#include "tests/server/support/dense_copy.h"
#include "tests/server/support/local_cluster.h"

namespace dslide::synchronous_test {
namespace {

constexpr uint32_t kFeatures = 40, kLabels = 60, kHidden = 16, kBatch = 8;
constexpr uint64_t kSamples = 76;  // 10 batches an epoch, the last of 4; steps of 4, 4 and 2

Config StepConfig(uint32_t step_batches, int32_t staleness = 0) {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.train.batch = kBatch;
  config.train.target_batch = step_batches * kBatch;
  config.train.staleness = staleness;
  config.train.epochs = 4;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

LeaseBatch BatchOf(const Config& config, uint64_t number) {
  Random random(1000 + number);
  const bool last = number % BatchesPerEpoch(config.train, kSamples) == 9;
  return RandomBatch(config, last ? 4 : kBatch, 3, &random);
}

// All rows as they would be stored: weights, moments and scalars.
std::vector<uint8_t> StoredRows(LocalCluster* cluster) {
  std::vector<uint8_t> bytes;
  for (Executor* executor : cluster->executors()) {
    for (Layer* layer : {&executor->input().layer(), &executor->output().layer()}) {
      for (uint32_t row = 0; row < layer->map().rows(); ++row) {
        if (layer->map().Global(row) == SlotMap::kNone) continue;
        bytes.resize(bytes.size() + layer->RowBytes());
        layer->StoreRow(row, bytes.data() + bytes.size() - layer->RowBytes());
      }
    }
  }
  return bytes;
}

// Trains the batches of a step one after another in a given order.
void TrainStep(LocalCluster* cluster, uint64_t step, const std::vector<uint64_t>& order) {
  const Config& config = cluster->config();
  const StepExtent extent = ExtentOfStep(step, config.train, kSamples);
  for (const uint64_t n : order) {
    if (n < extent.batches) {
      (void)cluster->Train(BatchOf(config, extent.first_batch + n), extent.first_batch + n);
    }
  }
  cluster->Commit(step + 1);
}

// The same in a random order of stages, by `workers` incarnations.
void TrainStepInterleaved(LocalCluster* cluster, uint64_t step, uint64_t workers, Random* random) {
  const Config& config = cluster->config();
  const StepExtent extent = ExtentOfStep(step, config.train, kSamples);
  struct Under {
    BatchFlight flight;
    Incarnation worker;
  };
  std::vector<Under> under_way;
  for (uint64_t n = 0; n < extent.batches; ++n) {
    const uint64_t number = extent.first_batch + n;
    under_way.push_back(
        {cluster->Flight(BatchOf(config, number), number), {1 + random->Below(workers)}});
  }
  while (!under_way.empty()) {
    const size_t pick = random->Below(under_way.size());
    cluster->TrainStage(&under_way[pick].flight, random->Next() % 7, under_way[pick].worker);
    if (!under_way[pick].flight.done()) continue;
    // BatchFlight has references and so cannot be assigned.
    std::vector<Under> left;
    for (size_t i = 0; i < under_way.size(); ++i) {
      if (i != pick) left.push_back(std::move(under_way[i]));
    }
    under_way.swap(left);
  }
  cluster->Commit(step + 1);
}

void CheckOrderDoesNotMatter(const Config& config, const std::vector<uint32_t>& executors) {
  constexpr uint64_t kSteps = 9;  // three epochs
  LocalCluster reference(config, kSamples, executors);
  const std::vector<uint8_t> untrained = StoredRows(&reference);
  reference.Commit(0);
  for (uint64_t step = 0; step < kSteps; ++step) TrainStep(&reference, step, {0, 1, 2, 3});
  const std::vector<uint8_t> expected = StoredRows(&reference);
  CHECK(expected != untrained);

  LocalCluster reversed(config, kSamples, executors);
  reversed.Commit(0);
  for (uint64_t step = 0; step < kSteps; ++step) TrainStep(&reversed, step, {3, 2, 1, 0});
  CHECK(StoredRows(&reversed) == expected);

  Random random(17);
  for (const uint64_t workers : {1, 3}) {
    CAPTURE(workers);
    LocalCluster mixed(config, kSamples, executors);
    mixed.Commit(0);
    for (uint64_t step = 0; step < kSteps; ++step) {
      TrainStepInterleaved(&mixed, step, workers, &random);
    }
    CHECK(StoredRows(&mixed) == expected);
  }
}

void CheckBothPrecisions(const Config& config) {
  CheckOrderDoesNotMatter(config, {1});
  CheckOrderDoesNotMatter(config, {2, 1});
  CheckOrderDoesNotMatter(InBf16(config), {1, 2});
}

TEST_CASE("synchronous: the order of a step's batches does not matter, with all neurons active") {
  Config config = StepConfig(4);
  config.train.dropout_hidden = 0.2f;
  config.train.weight_decay = 0.05f;
  config.train.optimizer = OptimizerKind::kAdaGrad;
  config.train.learning_rate = 0.1f;
  CheckBothPrecisions(config);
  config.train.optimizer = OptimizerKind::kAdam;
  config.train.learning_rate = 0.01f;
  CheckBothPrecisions(config);
}

Config HashedConfig() {
  Config config = StepConfig(4);
  config.model.active = ActiveSet::kLsh;
  config.model.candidates = 4;
  config.model.negatives = 12;
  config.hash.k = 1;
  config.hash.tables = 6;
  config.train.optimizer = OptimizerKind::kAdaGrad;
  config.train.learning_rate = 0.3f;
  return config;
}

TEST_CASE("synchronous: the order of a step's batches does not matter, with hash tables") {
  Config config = HashedConfig();
  CheckBothPrecisions(config);
  config.train.optimizer = OptimizerKind::kAdam;
  config.train.learning_rate = 0.02f;
  CheckBothPrecisions(config);
  config.model.sharing = Sharing::kSample;
  CheckOrderDoesNotMatter(config, {2, 1});
}

TEST_CASE("synchronous: the order of a step's batches does not matter, with draws by mass") {
  Config config = StepConfig(4);
  config.model.active = ActiveSet::kMass;
  config.model.negatives = 12;
  config.train.optimizer = OptimizerKind::kAdaGrad;
  config.train.learning_rate = 0.3f;
  CheckBothPrecisions(config);
}

TEST_CASE("synchronous: int8 on the wire does not make the order matter") {
  Config config = StepConfig(4);
  config.cluster.wire = Wire::kInt8;
  CheckOrderDoesNotMatter(config, {1, 1});
}

TEST_CASE("synchronous: steps of one batch are asynchronous training one batch at a time") {
  Config config = StepConfig(1);
  Config asynchronous = config;
  asynchronous.train.staleness = -1;
  asynchronous.train.target_batch = 0;
  for (const std::vector<uint32_t>& executors : {std::vector<uint32_t>{1}, {1, 2}}) {
    LocalCluster a(config, kSamples, executors), b(asynchronous, kSamples, executors);
    a.Commit(0);
    for (uint64_t n = 0; n < 20; ++n) {
      const BatchDone done = a.Train(BatchOf(config, n), n);
      a.Commit(n + 1);
      CHECK(b.Train(BatchOf(config, n), n).loss_sum ==
            doctest::Approx(done.loss_sum).epsilon(1e-6));
    }
    CHECK(WorstError(&a, CopyOf(&b)) < 1e-5);  // sums in fixed point are rounded otherwise
  }
}

// The samples of several batches in one.
LeaseBatch Together(const std::vector<LeaseBatch>& batches) {
  LeaseBatch all;
  const auto append = [](const SparseRows& from, SparseRows* to) {
    for (uint32_t i = 0; i < from.rows(); ++i) {
      to->ids.insert(to->ids.end(), from.Ids(i).begin(), from.Ids(i).end());
      if (!from.values.empty()) {
        to->values.insert(to->values.end(), from.Values(i).begin(), from.Values(i).end());
      }
      to->EndRow();
    }
  };
  for (const LeaseBatch& batch : batches) {
    append(batch.features, &all.features);
    append(batch.labels, &all.labels);
  }
  return all;
}

void CheckAgainstReference(Config config, const std::vector<uint32_t>& executors, double allowed) {
  LocalCluster cluster(config, kSamples, executors);
  DenseNetwork reference = CopyOf(&cluster);
  cluster.Commit(0);
  const uint64_t steps = 2 * StepsPerEpoch(config.train, kSamples);
  for (uint64_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    const StepExtent extent = ExtentOfStep(step, config.train, kSamples);
    std::vector<LeaseBatch> batches;
    double loss = 0;
    for (uint64_t n = 0; n < extent.batches; ++n) {
      batches.push_back(BatchOf(config, extent.first_batch + n));
      loss += cluster.Train(batches.back(), extent.first_batch + n).loss_sum;
    }
    cluster.Commit(step + 1);
    const LeaseBatch together = Together(batches);
    REQUIRE(together.features.rows() == extent.samples);
    // The rate of a step is that of its first batch: up over six, then linearly to 0 after forty.
    const auto first = static_cast<double>(extent.first_batch);
    const double share = first < 6 ? (first + 1) / 6 : (40 - first) / 34;
    const double expected =
        reference.Train(config, together, double{config.train.learning_rate} * share);
    CHECK(loss == doctest::Approx(expected).epsilon(1e-4));
  }
  CHECK(WorstError(&cluster, reference) < allowed);
}

TEST_CASE("synchronous: a step of several batches trains like the dense reference on all of them") {
  for (const uint32_t step_batches : {2u, 4u}) {
    CAPTURE(step_batches);
    Config config = StepConfig(step_batches);
    config.train.warmup_batches = 6;
    config.train.decay = Decay::kLinear;
    CheckAgainstReference(config, {1}, 1e-4);
    CheckAgainstReference(config, {1, 2}, 1e-4);
    config.train.optimizer = OptimizerKind::kAdaGrad;
    config.train.learning_rate = 0.1f;
    CheckAgainstReference(config, {2, 1}, 1e-4);
    config.train.optimizer = OptimizerKind::kAdam;
    config.train.learning_rate = 0.01f;
    CheckAgainstReference(config, {2, 1}, 1e-3);
  }
}

TEST_CASE("synchronous: with staleness the steps ahead are taken, and commit in order") {
  const Config config = StepConfig(4, 1);
  LocalCluster cluster(config, kSamples, {2});
  cluster.Commit(0);
  const std::vector<uint8_t> before = StoredRows(&cluster);
  for (uint64_t n = 0; n < 8; ++n) (void)cluster.Train(BatchOf(config, n), n);
  CHECK(StoredRows(&cluster) == before);  // nothing counts yet
  cluster.Commit(1);
  const std::vector<uint8_t> after_one = StoredRows(&cluster);
  CHECK(after_one != before);
  cluster.Commit(1);  // said again
  CHECK(StoredRows(&cluster) == after_one);
  cluster.Commit(2);
  CHECK(StoredRows(&cluster) != after_one);
  // Both at once is the same as one after the other.
  LocalCluster other(config, kSamples, {2});
  other.Commit(0);
  for (uint64_t n = 8; n-- > 0;) (void)other.Train(BatchOf(config, n), n);
  other.Commit(2);
  CHECK(StoredRows(&other) == StoredRows(&cluster));
}

TEST_CASE("synchronous: a commit drops the open batches of its step, and no others") {
  const Config config = StepConfig(4, 1);
  LocalCluster cluster(config, kSamples, {1});
  cluster.Commit(0);
  BatchFlight late = cluster.Flight(BatchOf(config, 1), 1);
  BatchFlight ahead = cluster.Flight(BatchOf(config, 5), 5);
  for (BatchFlight* flight : {&late, &ahead}) cluster.TrainStage(flight, 0, {9});
  for (uint64_t n = 0; n < 4; ++n) (void)cluster.Train(BatchOf(config, n), n);
  cluster.Commit(1);
  CHECK(cluster.executors()[0]->batches_in_flight() == 1);
  const Body reply = cluster.AskExecutors(0, late.RequestFor(0), {9});
  CHECK(std::get<ErrorReply>(reply).code == ErrorCode::kUnknownBatch);
  while (!ahead.done()) cluster.TrainStage(&ahead, 0, {9});
  for (const uint64_t n : {4, 6, 7}) (void)cluster.Train(BatchOf(config, n), n);
  cluster.Commit(2);
}

// The last request of a batch, whose other stages are done.
EmbedPush LastRequest(LocalCluster* cluster, uint64_t number, Incarnation sender = {1}) {
  BatchFlight flight = cluster->Flight(BatchOf(cluster->config(), number), number);
  while (flight.stage() != BatchFlight::Stage::kEmbedPush) cluster->TrainStage(&flight, 0, sender);
  return std::get<EmbedPush>(flight.RequestFor(0));
}

TEST_CASE("synchronous: a next batch goes with a push") {
  const Config config = StepConfig(4);
  LocalCluster cluster(config, kSamples, {1});
  cluster.Commit(0);
  EmbedPush push = LastRequest(&cluster, 0);
  BatchFlight next = cluster.Flight(BatchOf(config, 1), 1);
  push.next = std::get<EmbedRequest>(next.RequestFor(0));
  const Body reply = cluster.AskExecutors(0, push);
  // The step's model stands still, so the reply is that to the request alone.
  CHECK(reply == cluster.AskExecutors(0, next.RequestFor(0), {9}));
  CHECK(*next.Take(0, reply));
  while (!next.done()) cluster.TrainStage(&next, 0);
  for (uint64_t n = 2; n < 4; ++n) (void)cluster.Train(BatchOf(config, n), n);
  cluster.Commit(1);
}

TEST_CASE("a push whose next batch is refused is acknowledged, and has taken effect") {
  for (const int32_t staleness : {0, -1}) {
    CAPTURE(staleness);
    Config config = StepConfig(4, 0);
    if (staleness < 0) {
      config.train.target_batch = 0;
      config.train.staleness = -1;
    }
    for (const uint32_t executors : {1u, 3u}) {
      CAPTURE(executors);
      LocalCluster cluster(config, kSamples, {executors}), plain(config, kSamples, {executors});
      if (staleness >= 0) {
        cluster.Commit(0);
        plain.Commit(0);
      }
      const auto request = [&](uint64_t number) {
        return std::get<EmbedRequest>(
            cluster.Flight(BatchOf(config, number), number).RequestFor(0));
      };
      std::vector<EmbedRequest> refused(3, request(1));
      refused[0].features.ids[0] = config.model.features + 1;
      refused[1].features.values.pop_back();
      refused[2].features = {};
      if (staleness >= 0) {
        refused.push_back(request(4));  // its step is not open
        refused.push_back(request(1));
        refused.back().batch.unit = 10;  // the epoch has no such batch
      }
      for (const EmbedRequest& next : refused) {
        EmbedPush push = LastRequest(&cluster, 0, {7});
        push.next = next;
        CHECK(cluster.AskExecutors(0, push, {7}) == Body{Ack{}});
        for (const Executor* executor : cluster.executors()) {
          CHECK(executor->batches_in_flight() == 0);
        }
        (void)plain.Train(BatchOf(config, 0), 0);
        // Pushed again there is nothing to push.
        CHECK(std::get<ErrorReply>(cluster.AskExecutors(0, push, {7})).code ==
              ErrorCode::kUnknownBatch);
      }
      if (staleness >= 0) {
        for (LocalCluster* each : {&cluster, &plain}) {
          for (uint64_t n = 1; n < 4; ++n) (void)each->Train(BatchOf(config, n), n);
          each->Commit(1);
        }
      }
      CHECK(StoredRows(&cluster) == StoredRows(&plain));
    }
  }
}

TEST_CASE("one executor that takes no next batch makes the reply an Ack, an error stays one") {
  EmbedPush push;
  push.next = EmbedRequest();
  const Body embedded = EmbedReply{Matrix(2, 3)}, error = ErrorReply{ErrorCode::kRefused, "no"};
  CHECK(GatherReplies(push, {embedded, Ack{}, embedded}) == Body{Ack{}});
  CHECK(GatherReplies(push, {Ack{}, embedded}) == Body{Ack{}});
  CHECK(GatherReplies(push, {Ack{}, Ack{}}) == Body{Ack{}});
  CHECK(GatherReplies(push, {embedded, embedded}) == embedded);
  CHECK(GatherReplies(push, {embedded, Ack{}, error}) == error);
}

// Trains until a reply is not finite.
void CheckDiverges(Config config) {
  LocalCluster cluster(config, kSamples, {1});
  cluster.Commit(0);
  for (uint64_t number = 0; number < 20; ++number) {
    BatchFlight flight = cluster.Flight(BatchOf(config, number), number);
    while (!flight.done()) {
      RequestRound round(flight.RequestFor(0));
      RequestRound::Progress progress;
      do {
        progress = round.Gather(cluster.Parts(0, *round.request()));
      } while (progress == RequestRound::Progress::kSecondRound);
      if (progress == RequestRound::Progress::kOutOfRange) return;
      Body reply = round.TakeReply();
      REQUIRE_FALSE(std::holds_alternative<ErrorReply>(reply));
      if (std::holds_alternative<Ack>(reply)) break;
      REQUIRE(flight.Take(0, std::move(reply)).ok());
    }
    cluster.Commit(number + 1);
  }
  FAIL("gradients out of range, and nobody can tell");
}

TEST_CASE("synchronous: gradients that leave the range make replies that are not finite") {
  for (const ActiveSet active : {ActiveSet::kAll, ActiveSet::kLsh}) {
    CAPTURE(static_cast<int>(active));
    Config config = StepConfig(1);
    config.model.active = active;
    config.model.negatives = 12;
    config.hash.k = 1;
    config.hash.tables = 6;
    config.train.learning_rate = 1e6f;
    CheckDiverges(config);
    CheckDiverges(InBf16(config));
  }
}

}  // namespace
}  // namespace dslide::synchronous_test
