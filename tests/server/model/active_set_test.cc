#include "server/model/active_set.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "server/model/output_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide::active_set_test {
namespace {

constexpr uint32_t kNeurons = 97, kSlots = 8;

std::vector<SlotId> Slots(uint32_t begin, uint32_t end) {
  std::vector<SlotId> slots;
  for (uint32_t s = begin; s < end; ++s) slots.push_back({s});
  return slots;
}

SparseRows Labels(const std::vector<std::vector<uint32_t>>& samples) {
  SparseRows rows;
  for (const auto& labels : samples) {
    rows.ids.insert(rows.ids.end(), labels.begin(), labels.end());
    rows.EndRow();
  }
  return rows;
}

TEST_CASE("labels are always columns, no neuron is two columns, and counts are right") {
  Config config = SmallConfig(20, kNeurons, 4);
  config.model.active = ActiveSet::kMass;
  const Layer layer(LayerKind::kOutput, config, SlotMap(kNeurons, kSlots, Slots(0, kSlots)),
                    Purpose::kTraining, BestKernels());
  const SlotMap& map = layer.map();
  const ImportanceBuckets buckets(layer);
  ActiveSetBuilder builder(config.model, map);
  const SparseRows labels = Labels({{3, 50}, {}, {50, 96}});
  uint64_t all_draws = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    ActiveColumns columns;
    builder.Build(labels, buckets, {seed, 30}, nullptr, &columns);
    CHECK(columns.labelled == 3);
    REQUIRE(columns.drawn.size() == columns.rows.size());
    REQUIRE(columns.weights.size() == columns.rows.size());
    uint32_t drawn = 0;
    for (size_t u = 0; u < columns.rows.size(); ++u) {
      drawn += columns.drawn[u];
      CHECK(map.Global(columns.rows[u]) < kNeurons);
      CHECK((u < columns.labelled || columns.drawn[u] == 1));
      CHECK(columns.weights[u] == doctest::Approx(u < columns.labelled ? 1 : kNeurons / 30.0));
    }
    CHECK(columns.draws == drawn);
    all_draws += drawn;
    CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == columns.rows.size());
    CHECK(columns.label_offsets == labels.offsets);
    for (size_t e = 0; e < labels.ids.size(); ++e) {
      CHECK(map.Global(columns.rows[columns.label_columns[e]]) == labels.ids[e]);
    }
  }
  // Binomial: five standard deviations.
  CHECK(std::abs(static_cast<double>(all_draws) - 3000) <
        5 * std::sqrt(3000 * (1 - 30.0 / kNeurons)));
}

TEST_CASE("active = all takes every neuron once and draws none") {
  const SlotMap map(kNeurons, kSlots, Slots(1, 4));
  ModelConfig model;
  model.labels = kNeurons;
  model.active = ActiveSet::kAll;
  ActiveSetBuilder builder(model, map);
  ActiveColumns columns;
  builder.Build(Labels({{1, 9}, {2, 8}}), &columns);
  CHECK(columns.weights == std::vector<float>(map.size(), 1.0f));
  CHECK(columns.drawn == std::vector<uint8_t>(map.size()));
  CHECK(columns.rows.size() == map.size());
  CHECK(columns.draws == 0);
  CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == map.size());
  CHECK(columns.label_columns.size() == 3);  // 8 lives elsewhere: slot 0
}

TEST_CASE("rows without an id are never active, whatever the buckets name and slots do") {
  constexpr uint32_t kTables = 4, kBits = 3, kSamples = 6;
  Random random(17);
  for (int run = 0; run < 30; ++run) {
    Config config = SmallConfig(20, kNeurons, 4);
    config.model.active = ActiveSet::kLsh;
    config.model.negatives = 1 + static_cast<uint32_t>(random.Below(90));
    config.model.candidates = 40;
    config.model.sharing = run % 2 == 0 ? Sharing::kBatch : Sharing::kSample;
    Layer layer(
        LayerKind::kOutput, config,
        SlotMap(kNeurons, kSlots, Slots(0, static_cast<uint32_t>(random.Below(kSlots + 1)))),
        Purpose::kTraining, BestKernels());
    const SlotMap& map = layer.map();
    ImportanceBuckets buckets(layer);
    ActiveSetBuilder builder(config.model, map);
    HashTables tables(kTables, kBits, map.rows());
    const auto draw = [&](BucketCode* codes, size_t count) {
      for (size_t i = 0; i < count; ++i) codes[i] = static_cast<BucketCode>(random.Below(8));
    };
    for (int step = 0; step < 60; ++step) {
      const SlotId slot{static_cast<uint32_t>(random.Below(kSlots))};
      if (!map.HasRegion(slot)) {
        layer.Reserve(slot);
      } else if (!map.Owns(slot)) {
        random.Below(2) == 0 ? layer.Attach(slot) : layer.Release(slot);
      } else {
        layer.Detach(slot);
      }
      // Tables that know nothing of slots: every row is in a bucket.
      tables.Resize(map.rows());
      std::vector<BucketCode> codes(kTables);
      for (uint32_t row = 0; row < map.rows(); ++row) {
        draw(codes.data(), kTables);
        tables.SetCodes(row, codes);
      }
      if (random.Below(2) == 0) tables.BuildAll();
      builder.FollowMap();
      buckets.FollowMap();
      CHECK(builder.candidates() <= map.size());
      codes.resize(kSamples * kTables);
      draw(codes.data(), codes.size());
      ActiveColumns columns;
      const ActiveSetBuilder::Hashed hashed{tables, codes.data()};
      builder.Build(Labels({{1, 9}, {2, 8}, {}, {3}, {4}, {96}}), buckets,
                    {static_cast<uint64_t>(step), config.model.negatives}, &hashed, &columns);
      for (const uint32_t row : columns.rows) REQUIRE(map.Global(row) != SlotMap::kNone);
      for (const uint32_t u : columns.hit_columns) REQUIRE(u < columns.rows.size());
      CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == columns.rows.size());
      CHECK(columns.weights.size() == columns.rows.size());
      CHECK(columns.drawn.size() == columns.rows.size());
      for (const float weight : columns.weights) CHECK(weight >= 1.0f);
      for (const float weight : columns.hit_weights) CHECK(weight >= 1.0f);
      if (map.size() == 0) CHECK(columns.rows.empty());
    }
  }
}

// The mean over draws of a sample's weighted sum of exponentials, and the full sum. Hash functions
// are drawn, too.
void CheckUnbiased(ActiveSet active, Sharing sharing) {
  Config config = SmallConfig(20, kNeurons, 16);
  config.model.active = ActiveSet::kAll;
  OutputLayer full(config, AllSlots(config), Purpose::kTraining, BestKernels());
  full.layer().Initialise(3, 0.5f, kNeurons);
  config.model.active = active;
  config.model.sharing = sharing;
  config.model.negatives = 20;
  config.model.candidates = 5;
  config.hash.k = 2;
  config.hash.tables = 10;
  ActiveQuery query;
  query.hidden = Matrix(3, 16);
  for (size_t j = 0; j < 48; ++j) {
    query.hidden.data[j] = std::max(0.0f, 0.2f * static_cast<float>(j * j % 11) - 0.8f);
  }
  query.labels = Labels({{10, 20}, {30}, {}});
  query.label_totals = {2, 1, 0};
  const auto sum = [](const ActiveReply& reply, size_t i) {
    return double{reply.sum_exp[i]} * std::exp(double{reply.max[i]});
  };
  OutputBatch batch;
  const ActiveReply exact = full.Query(query, {1}, &batch);
  constexpr int kFunctions = 20, kDraws = 200, kRepeats = kFunctions * kDraws;
  double mean[3] = {}, squares[3] = {};
  for (int functions = 0; functions < kFunctions; ++functions) {
    config.common.seed = static_cast<uint64_t>(functions);
    OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
    layer.layer().Initialise(3, 0.5f, kNeurons);
    if (layer.index() != nullptr) layer.index()->tables().CatchUp();
    for (int draw = 0; draw < kDraws; ++draw) {
      const Draws draws{SubSeed(static_cast<uint64_t>(functions), static_cast<uint64_t>(draw)), 20};
      const ActiveReply reply = layer.Query(query, draws, &batch);
      for (size_t i = 0; i < 3; ++i) {
        mean[i] += sum(reply, i) / kRepeats;
        squares[i] += sum(reply, i) * sum(reply, i) / kRepeats;
      }
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const double error = std::sqrt((squares[i] - mean[i] * mean[i]) / kRepeats);
    CHECK(error > 0);
    CHECK(error < 0.02 * sum(exact, i));
    CHECK(std::abs(mean[i] - sum(exact, i)) < 4 * error);
  }
}

TEST_CASE("weighted draws by mass keep the partition function unbiased") {
  CheckUnbiased(ActiveSet::kMass, Sharing::kBatch);
}

TEST_CASE("weighted hash candidates keep the partition function unbiased") {
  for (const Sharing sharing : {Sharing::kBatch, Sharing::kSample}) {
    CAPTURE(static_cast<int>(sharing));
    CheckUnbiased(ActiveSet::kLsh, sharing);
  }
}

// Weights are 1 / pi: a neuron that is in the set with the same probability in all draws has a
// weight in every one, and over many draws is there as often as the weight says.
TEST_CASE("hash candidates are in the set as often as their weights say") {
  constexpr uint32_t kSamples = 12, kRounds = 4000;
  for (const Sharing sharing : {Sharing::kBatch, Sharing::kSample}) {
    CAPTURE(static_cast<int>(sharing));
    Config config = SmallConfig(20, 600, 16);
    config.model.active = ActiveSet::kLsh;
    config.model.sharing = sharing;
    config.model.negatives = 60;
    config.model.candidates = 7;
    config.hash.k = 2;
    config.hash.tables = 8;
    OutputLayer layer(config, AllSlots(config), Purpose::kTraining, BestKernels());
    layer.layer().Initialise(3, 0.5f, 600);
    layer.index()->tables().CatchUp();
    ActiveQuery query;
    query.hidden = Matrix(kSamples, 16);
    Random random(2);
    for (float& h : query.hidden.data) h = static_cast<float>(random.Uniform());
    for (uint32_t i = 0; i < kSamples; ++i) {
      query.labels.ids.push_back(7 * i);
      query.labels.EndRow();
      query.label_totals.push_back(1);
    }
    // By (sample, row); one sample stands for all if the batch shares its set.
    std::map<std::pair<uint32_t, uint32_t>, std::pair<float, uint32_t>> seen;  // weight, times
    for (uint32_t round = 0; round < kRounds; ++round) {
      OutputBatch batch;
      (void)layer.Query(query, {SubSeed(6, round), 60}, &batch);
      const auto count = [&](uint32_t sample, uint32_t column, float weight) {
        const uint32_t row = batch.columns.rows[column];
        auto& [kept, times] = seen.try_emplace({sample, row}, weight, 0u).first->second;
        CHECK(kept == weight);
        ++times;
      };
      for (uint32_t u = 0; u < batch.columns.rows.size(); ++u) {
        if (sharing == Sharing::kBatch) {
          count(0, u, batch.weights[u]);
        } else {
          for (size_t e = batch.offsets[u]; e < batch.offsets[u + 1]; ++e) {
            count(batch.samples[e], u, batch.weights[e]);
          }
        }
      }
    }
    double squares = 0, uncertain = 0, certain = 0;
    for (const auto& [where, found] : seen) {
      const double pi = 1.0 / double{found.first};
      const double off = found.second - kRounds * pi;
      if (pi > 0.9999) {
        CHECK(found.second == kRounds);
        ++certain;
        continue;
      }
      squares += off * off / (kRounds * pi * (1 - pi));
      ++uncertain;
    }
    CHECK(certain > 15);  // more than the labels
    REQUIRE(uncertain > 300);
    // Of normalised deviations: about one each. Draws by mass are the same for all samples, so with
    // sharing = sample there are fewer independent ones than pairs.
    const double independent = sharing == Sharing::kBatch ? uncertain : uncertain / kSamples;
    CHECK(std::abs(squares / uncertain - 1) < 5 * std::sqrt(2 / independent));
  }
}

}  // namespace
}  // namespace dslide::active_set_test
