#include "server/executor/batch_trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/math/kernels.h"
#include "common/run/combine.h"
#include "server/model/centroids.h"
#include "tests/server/support/test_batches.h"

namespace dslide::batch_trainer_test {
namespace {

constexpr Incarnation kWorker{5};
constexpr uint32_t kFeatures = 20, kLabels = 15, kHidden = 4;
constexpr uint64_t kSamples = 8;  // synchronous: steps of two batches of two samples
constexpr uint32_t kBatches = 4;  // of an epoch

Config TrainerConfig(int32_t staleness, Neurons neurons = Neurons::kLearned) {
  Config config = SmallConfig(kFeatures, kLabels, kHidden);
  config.train.batch = 2;
  config.train.target_batch = 4;
  config.train.staleness = staleness;
  config.model.neurons = neurons;
  ResolveConfig(kFeatures, kLabels, &config);
  return config;
}

struct Fixture {
  explicit Fixture(int32_t staleness, Neurons neurons = Neurons::kLearned)
      : Fixture(TrainerConfig(staleness, neurons), AllSlots(TrainerConfig(staleness, neurons))) {}
  Fixture(const Config& of, const std::vector<SlotId>& slots)
      : config(of),
        input(config, slots, Purpose::kTraining, BestKernels()),
        output(config, slots, Purpose::kTraining, BestKernels()),
        applied(slots) {
    input.layer().Initialise(1, 0.3f, kFeatures);
    output.layer().Initialise(1, 0.3f, kLabels);
  }

  BatchId Batch(uint32_t number) const {
    const uint32_t in_epoch = number % kBatches;
    return {number / kBatches, in_epoch / config.train.unit_batches,
            in_epoch % config.train.unit_batches};
  }
  // The requests of a batch.
  EmbedRequest Embedding(uint32_t number, bool alone = false) const {
    EmbedRequest embed{Batch(number), true, {}, alone};
    embed.features.ids = {1, kFeatures, 2, 7, kFeatures};
    embed.features.values = {1, 1, 0.5f, 2, 1};
    embed.features.offsets = {0, 2, 5};
    return embed;
  }
  ActiveQuery Asking(uint32_t number, bool alone = false) const {
    ActiveQuery query;
    query.batch = Batch(number);
    query.hidden = Matrix(2, kHidden);
    query.hidden.data = {1, 0, 2, 0, 0.5f, 0.5f, 0, 1};
    query.labels.ids = {3, 4, 14};
    query.labels.offsets = {0, 2, 3};
    query.label_totals = {2, 1};
    query.alone = alone;
    return query;
  }
  EmbedPush Pushing(uint32_t number) const {
    EmbedPush push{Batch(number), Matrix(2, kHidden)};
    push.gradient.data.assign(push.gradient.data.size(), 0.5f);
    return push;
  }
  // All stages of a batch; its dL/dh.
  Matrix Train(uint32_t number, Incarnation worker = kWorker) {
    REQUIRE(std::holds_alternative<EmbedReply>(trainer.Embed(worker, Embedding(number))));
    REQUIRE(std::holds_alternative<ActiveReply>(trainer.Query(worker, Asking(number))));
    const Body reply = trainer.Push(worker, {Batch(number), {2.0f, 2.0f}});
    REQUIRE(std::holds_alternative<Ack>(trainer.PushEmbedding(worker, Pushing(number))));
    return InFloats(std::get<GradientReply>(reply).partial);
  }
  std::vector<uint8_t> Rows() {
    std::vector<uint8_t> rows;
    for (Layer* layer : {&input.layer(), &output.layer()}) {
      std::vector<uint8_t> bytes(layer->RowBytes());
      for (uint32_t row = 0; row < layer->map().rows(); ++row) {
        layer->StoreRow(row, bytes.data());
        rows.insert(rows.end(), bytes.begin(), bytes.end());
      }
    }
    return rows;
  }

  Config config;
  InputLayer input;
  OutputLayer output;
  AppliedBatches applied;
  SlotLoad load{config.cluster};
  WorkCounter counter{&load, input.layer(), output};
  int updates = 0;
  BatchTrainer trainer{
      config, kSamples, BestKernels(), {input, output, applied, counter}, [this] { ++updates; }};
};

TEST_CASE("asynchronous training applies a batch at once, and once") {
  Fixture fixture(-1);
  const auto before = fixture.Rows();
  (void)fixture.Train(0);
  CHECK(fixture.updates == 1);
  CHECK(fixture.trainer.batches_in_flight() == 0);
  const auto after = fixture.Rows();
  CHECK(after != before);
  // It comes again, from another worker: it is answered, but the rows have taken it.
  CHECK(fixture.Train(0, {6}).rows == 2);
  CHECK(fixture.Rows() == after);
  CHECK(fixture.applied.additions(Part::kOutput) == 1);
  CHECK(fixture.applied.additions(Part::kInput) == 1);
  (void)fixture.Train(1);
  CHECK(fixture.Rows() != after);
  fixture.trainer.CheckInvariants();
}

TEST_CASE("synchronous training applies a step when it is committed") {
  Fixture fixture(0);
  BatchTrainer& trainer = fixture.trainer;
  CHECK(std::get<StepsCommitted>(trainer.Commit({0})).committed == 0);
  const auto before = fixture.Rows();
  (void)fixture.Train(1);
  CHECK(std::get<ErrorReply>(trainer.Commit({1})).text ==
        "step 0 cannot be committed: 1 of 2 batches missing");
  (void)fixture.Train(0);
  CHECK(fixture.Rows() == before);
  CHECK(fixture.updates == 0);
  CHECK(std::get<StepsCommitted>(trainer.Commit({1})).committed == 1);
  CHECK(fixture.Rows() != before);
  CHECK(fixture.updates == 2);  // both batches
  CHECK(fixture.applied.Has(Part::kInput, 1) == AppliedBatches::Share::kAll);
  trainer.CheckInvariants();
}

// A model with two dense layers, of 6 and kHidden units.
Config DenseConfig(int32_t staleness) {
  Config config = TrainerConfig(staleness);
  config.model.dense = {6, kHidden};
  return config;
}

LayerRows AllDense(const Config& config) {
  LayerRows rows{{}, Matrix(DenseRowCount(config.model), kHidden)};
  for (uint32_t d = 0; d < rows.values.rows; ++d)
    rows.ids.push_back(FirstDenseId(config.model) + d);
  for (float& x : rows.values.data) x = 0.25f;
  return rows;
}

TEST_CASE("dense layers: their rows are sent, and move by the gradients that come, once") {
  for (const int32_t staleness : {-1, 0}) {
    CAPTURE(staleness);
    const Config config = DenseConfig(staleness);
    Fixture fixture(config, AllSlots(config));
    fixture.input.Initialise(config);
    if (staleness == 0) (void)fixture.trainer.Commit({0});
    const LayerRows before = fixture.input.DenseRows();
    CHECK(before.ids == AllDense(config).ids);
    const auto train = [&](uint32_t number, Incarnation worker) {
      EmbedRequest embed = fixture.Embedding(number);
      embed.dense = true;
      const Body reply = fixture.trainer.Embed(worker, embed);
      CHECK(*std::get<EmbedReply>(reply).dense == fixture.input.DenseRows());
      REQUIRE(std::holds_alternative<ActiveReply>(
          fixture.trainer.Query(worker, fixture.Asking(number))));
      (void)fixture.trainer.Push(worker, {fixture.Batch(number), {2.0f, 2.0f}});
      EmbedPush push = fixture.Pushing(number);
      push.dense = AllDense(config);
      REQUIRE(std::holds_alternative<Ack>(fixture.trainer.PushEmbedding(worker, push)));
    };
    train(0, {5});
    train(0, {6});  // it comes again, from another worker
    train(1, {5});
    if (staleness == 0) {
      CHECK(fixture.input.DenseRows() == before);
      REQUIRE(std::holds_alternative<StepsCommitted>(fixture.trainer.Commit({1})));
    }
    // SGD with rate 1; two batches, which make one step where there are steps.
    const LayerRows after = fixture.input.DenseRows();
    for (size_t i = 0; i < after.values.data.size(); ++i) {
      REQUIRE(after.values.data[i] ==
              doctest::Approx(before.values.data[i] - (staleness == 0 ? 0.25 : 0.5)));
    }
  }
}

TEST_CASE("dense layers: gradients that do not fit are refused in one line, and change nothing") {
  const auto check = [](const Config& config, const std::function<void(EmbedPush*)>& spoil,
                        const std::string& expected) {
    CAPTURE(expected);
    Fixture fixture(config, AllSlots(config));
    fixture.input.Initialise(config);
    REQUIRE(
        std::holds_alternative<EmbedReply>(fixture.trainer.Embed(kWorker, fixture.Embedding(0))));
    (void)fixture.trainer.Query(kWorker, fixture.Asking(0));
    (void)fixture.trainer.Push(kWorker, {fixture.Batch(0), {2.0f, 2.0f}});
    EmbedPush push = fixture.Pushing(0);
    if (!config.model.dense.empty()) push.dense = AllDense(config);
    spoil(&push);
    const auto before = fixture.Rows();
    const Body reply = fixture.trainer.PushEmbedding(kWorker, push);
    REQUIRE(std::holds_alternative<ErrorReply>(reply));
    CHECK(std::get<ErrorReply>(reply).text == expected);
    CHECK(fixture.Rows() == before);
  };
  // 6 + 2 and 4 * 2 + 1 rows, behind the bias, which is row 20.
  const Config config = DenseConfig(-1);
  check(
      config, [](EmbedPush* push) { push->dense.reset(); },
      "EmbedPush: the gradients of the dense layers are missing");
  check(
      config, [](EmbedPush* push) { push->dense->values = Matrix(17, 3); },
      "EmbedPush: rows of dense layers have 3 columns, expected 4");
  check(
      config, [](EmbedPush* push) { push->dense->ids[0] = 20; },
      "EmbedPush: row 20 is of no dense layer");
  check(
      config, [](EmbedPush* push) { push->dense->ids.back() = 38; },
      "EmbedPush: row 38 is of no dense layer");
  check(
      config, [](EmbedPush* push) { push->dense->ids[1] = 21; },
      "EmbedPush: row 21 is there twice, or out of order");
  check(
      config, [](EmbedPush* push) { push->dense->ids.pop_back(); },
      "EmbedPush: 16 rows of dense layers, expected 17");
  check(
      TrainerConfig(-1), [&](EmbedPush* push) { push->dense = AllDense(config); },
      "EmbedPush: gradients of dense layers, and the model has none");
}

TEST_CASE("centroids: neurons and input rows learn in turn") {
  for (const int32_t staleness : {-1, 0}) {
    CAPTURE(staleness);
    Fixture fixture(staleness, Neurons::kCentroids);
    REQUIRE(!LearnsIn(fixture.config, 0));
    REQUIRE(LearnsIn(fixture.config, 1));
    if (staleness == 0) (void)fixture.trainer.Commit({0});
    const Layer& input = fixture.input.layer();
    const Layer& output = fixture.output.layer();
    const auto weights = [](const Layer& layer, uint32_t id) {
      const float* w = layer.weights(layer.map().Local(id));
      return std::vector<float>(w, w + kHidden);
    };
    const auto initial = weights(input, 7);
    const auto no_label = weights(output, 9);
    const auto train = [&](uint32_t number) {
      const Matrix gradient = fixture.Train(number);
      if (staleness == 0 && number % 2 == 1) (void)fixture.trainer.Commit({(number + 1) / 2});
      return std::ranges::any_of(gradient.data, [](float x) { return x != 0; });
    };
    for (uint32_t number = 0; number < kBatches; ++number) CHECK_FALSE(train(number));
    CHECK(weights(input, 7) == initial);
    CHECK(weights(output, 9) == no_label);
    const std::vector<float> direction = {1, 0, 2, 0};
    for (const uint32_t id : {3, 4}) {
      for (uint32_t k = 0; k < kHidden; ++k) {
        CHECK(weights(output, id)[k] ==
              doctest::Approx(kCentroidLength * direction[k] / std::sqrt(5.0)));
      }
      CHECK(output.samples(output.map().Local(id)) == kBatches);
      CHECK(output.sum_length(output.map().Local(id)) == doctest::Approx(kBatches));
    }
    const auto formed = weights(output, 3);
    for (uint32_t number = kBatches; number < kBatches + 2; ++number) CHECK(train(number));
    CHECK(weights(input, 7) != initial);
    CHECK(weights(output, 3) == formed);
  }
}

TEST_CASE("when slots come or go nothing of what was begun is left") {
  Fixture fixture(0);
  (void)fixture.trainer.Commit({0});
  (void)fixture.Train(0);
  fixture.trainer.DropWork();
  (void)fixture.Train(1);
  CHECK(std::holds_alternative<ErrorReply>(fixture.trainer.Commit({1})));
  (void)fixture.Train(0);
  CHECK(std::holds_alternative<StepsCommitted>(fixture.trainer.Commit({1})));
}

// The rows of one layer only.
struct OneLayer : Fixture {
  OneLayer(int32_t staleness, LayerKind kind) : Fixture(WithInputSlots(staleness), SlotsOf(kind)) {
    (void)trainer.Commit({0});
  }
  static Config WithInputSlots(int32_t staleness) {
    Config config = TrainerConfig(staleness);
    config.cluster.input_slots = 3;
    return config;
  }
  static std::vector<SlotId> SlotsOf(LayerKind kind) {
    const ClusterConfig cluster = WithInputSlots(0).cluster;
    std::vector<SlotId> slots = AllSlots(cluster);
    const SlotRange range = kind == LayerKind::kInput ? InputSlots(cluster) : OutputSlots(cluster);
    std::erase_if(slots, [&](SlotId slot) { return !range.Has(slot); });
    return slots;
  }
  void TrainInput(uint32_t number) {
    REQUIRE(std::holds_alternative<EmbedReply>(trainer.Embed(kWorker, Embedding(number, true))));
    REQUIRE(std::holds_alternative<Ack>(trainer.PushEmbedding(kWorker, Pushing(number))));
  }
  void TrainOutput(uint32_t number) {
    REQUIRE(std::holds_alternative<ActiveReply>(trainer.Query(kWorker, Asking(number, true))));
    const Body reply = trainer.Push(kWorker, {Batch(number), {2.0f, 2.0f}});
    REQUIRE(std::holds_alternative<GradientReply>(reply));
  }
  bool HasBoth(uint32_t number) const {
    return applied.Has(Part::kInput, number) == AppliedBatches::Share::kAll &&
           applied.Has(Part::kOutput, number) == AppliedBatches::Share::kAll;
  }
};

TEST_CASE("input rows alone: a batch is an EmbedRequest and an EmbedPush") {
  for (const int32_t staleness : {-1, 0}) {
    OneLayer fixture(staleness, LayerKind::kInput);
    const auto before = fixture.Rows();
    fixture.TrainInput(0);
    fixture.TrainInput(0);
    fixture.TrainInput(1);
    CHECK(fixture.trainer.batches_in_flight() == 0);
    if (staleness == 0) {
      CHECK(fixture.Rows() == before);
      CHECK(std::holds_alternative<StepsCommitted>(fixture.trainer.Commit({1})));
    }
    CHECK(fixture.Rows() != before);
    CHECK(fixture.HasBoth(0));
    CHECK(fixture.HasBoth(1));
    CHECK(fixture.applied.additions(Part::kInput) == 2);
    CHECK(std::get<ErrorReply>(fixture.trainer.Query(kWorker, fixture.Asking(2, true))).text ==
          "ActiveQuery: alone is for servers without input rows");
  }
}

TEST_CASE("a batch with more labels than there is memory for is refused, and can begin again") {
  Fixture fixture(-1);
  fixture.trainer.set_most_batch_bytes(sizeof(float) * 2 * 3 / 2);  // three labels of two samples
  REQUIRE(std::holds_alternative<EmbedReply>(fixture.trainer.Embed(kWorker, fixture.Embedding(0))));
  ActiveQuery query = fixture.Asking(0);
  query.labels.ids = {1, 2, 3, 4};
  query.labels.offsets = {0, 2, 4};
  query.label_totals = {2, 2};
  CHECK(
      std::get<ErrorReply>(fixture.trainer.Query(kWorker, query)).text ==
      "ActiveQuery: 2 samples have 4 labels here, their block would take 0 MB of the 0 MB for all "
      "batches; lower train.batch or raise cluster.memory_mb");
  query.labels.ids = {1, 2, 2, 3};
  CHECK(std::holds_alternative<ActiveReply>(fixture.trainer.Query(kWorker, query)));
}

TEST_CASE("neurons alone: a batch is an ActiveQuery and a GradientPush") {
  for (const int32_t staleness : {-1, 0}) {
    OneLayer fixture(staleness, LayerKind::kOutput);
    const auto before = fixture.Rows();
    fixture.TrainOutput(0);
    fixture.TrainOutput(0);
    fixture.TrainOutput(1);
    CHECK(fixture.trainer.batches_in_flight() == 0);
    if (staleness == 0) {
      CHECK(fixture.Rows() == before);
      CHECK(std::holds_alternative<StepsCommitted>(fixture.trainer.Commit({1})));
      // The next step's batches are open, the one after is not.
      CHECK(std::holds_alternative<ErrorReply>(
          fixture.trainer.Query(kWorker, fixture.Asking(0, true))));
    }
    CHECK(fixture.Rows() != before);
    CHECK(fixture.HasBoth(0));
    CHECK(fixture.HasBoth(1));
    CHECK(fixture.applied.additions(Part::kOutput) == 2);
    CHECK(std::get<ErrorReply>(fixture.trainer.Embed(kWorker, fixture.Embedding(2, true))).text ==
          "EmbedRequest: alone is for servers without neurons");
    // A batch that began with another request of its own is not known.
    CHECK(std::holds_alternative<ErrorReply>(
        fixture.trainer.PushEmbedding(kWorker, fixture.Pushing(2))));
  }
}

TEST_CASE("input rows alone: a batch does not go on with requests of the other layer") {
  OneLayer fixture(-1, LayerKind::kInput);
  REQUIRE(std::holds_alternative<EmbedReply>(
      fixture.trainer.Embed(kWorker, fixture.Embedding(0, true))));
  CHECK(std::get<ErrorReply>(fixture.trainer.Query(kWorker, fixture.Asking(0))).code ==
        ErrorCode::kUnknownBatch);
  CHECK_FALSE(fixture.HasBoth(0));
}

TEST_CASE("input rows alone: upkeep is once a batch") {
  for (const int32_t staleness : {-1, 0}) {
    OneLayer fixture(staleness, LayerKind::kInput);
    fixture.TrainInput(0);
    fixture.TrainInput(1);
    if (staleness == 0) (void)fixture.trainer.Commit({1});
    CHECK(fixture.updates == 2);
  }
}

TEST_CASE("neurons alone: a late copy of a batch is not known") {
  OneLayer fixture(0, LayerKind::kOutput);
  fixture.TrainOutput(0);
  fixture.TrainOutput(1);
  REQUIRE(std::holds_alternative<StepsCommitted>(fixture.trainer.Commit({1})));
  CHECK(std::get<ErrorReply>(fixture.trainer.Query(kWorker, fixture.Asking(1, true))).code ==
        ErrorCode::kUnknownBatch);
}

TEST_CASE("without any rows every step can be committed") {
  Fixture fixture(TrainerConfig(0), {});
  CHECK(std::get<StepsCommitted>(fixture.trainer.Commit({1})).committed == 1);
  CHECK(std::get<StepsCommitted>(fixture.trainer.Commit({2})).committed == 2);
  CHECK(fixture.trainer.committed() == 2);
}

TEST_CASE("a batch that forms centroids has no masses, whatever was in its buffers") {
  Config config = TrainerConfig(-1, Neurons::kCentroids);
  config.model.active = ActiveSet::kMass;
  Fixture fixture(config, AllSlots(config));
  OutputBatch batch;
  const ActiveQuery query = fixture.Asking(0);
  (void)fixture.output.Query(query, Draws{1, 10}, &batch);
  (void)fixture.output.Gradient(&batch, {2.0f, 2.0f}, [](uint32_t, const float*, float) {});
  REQUIRE(batch.masses.size() == batch.columns.rows.size());
  (void)fixture.output.Query(query, Draws{2, 10, true}, &batch);
  CHECK(batch.masses.empty());
}

TEST_CASE("what is no batch of the run, or of no open step, is refused") {
  Fixture fixture(0);
  (void)fixture.trainer.Commit({0});
  const auto refusal = [&](BatchId batch, std::vector<uint32_t> offsets) {
    EmbedRequest embed{batch, true, {}};
    embed.features.offsets = std::move(offsets);
    return std::get<ErrorReply>(fixture.trainer.Embed(kWorker, embed)).text;
  };
  CHECK(refusal({99, 0, 0}, {0, 0, 0}) == "the run has no batch 99.0.0");
  CHECK(refusal(fixture.Batch(0), {0, 0}) == "batch 0.0.0 has 2 samples, not 1");
  CHECK(refusal(fixture.Batch(2), {0, 0, 0}) == "step 1 is not open; committed steps: 0");
}

}  // namespace
}  // namespace dslide::batch_trainer_test
