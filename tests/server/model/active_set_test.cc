#include "server/model/active_set.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "server/model/output_layer.h"
#include "tests/server/support/test_batches.h"

namespace dslide::active_set_test {
namespace {

constexpr uint32_t kNeurons = 97, kSlots = 8;

ModelConfig Model(ActiveSet active, uint32_t uniform) {
  ModelConfig model;
  model.labels = kNeurons;
  model.active = active;
  model.uniform = uniform;
  return model;
}

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
  const SlotMap map(kNeurons, kSlots, Slots(0, kSlots));
  ActiveSetBuilder builder(Model(ActiveSet::kSampled, 30), map);
  Random random(1);
  const SparseRows labels = Labels({{3, 50}, {}, {50, 96}});
  for (int repeat = 0; repeat < 100; ++repeat) {
    ActiveColumns columns;
    builder.Build(labels, {}, nullptr, nullptr, &random, &columns);
    CHECK(columns.hash_part == 3);
    CHECK(columns.draws == 30);
    REQUIRE(columns.drawn.size() == columns.rows.size());
    uint32_t drawn = 0, outside = 0;
    for (size_t u = 0; u < columns.rows.size(); ++u) {
      drawn += columns.drawn[u];
      outside += u >= columns.hash_part;
      CHECK(map.Global(columns.rows[u]) < kNeurons);
      if (u >= columns.hash_part) CHECK(columns.drawn[u] == 1);
    }
    CHECK(drawn == 30);
    CHECK(columns.rows.size() == columns.hash_part + outside);
    CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == columns.rows.size());
    CHECK(columns.label_offsets == labels.offsets);
    for (size_t e = 0; e < labels.ids.size(); ++e) {
      CHECK(map.Global(columns.rows[columns.label_columns[e]]) == labels.ids[e]);
    }
  }
}

TEST_CASE("every neuron is drawn with the same chance") {
  const SlotMap map(kNeurons, kSlots, Slots(2, 7));
  const uint32_t here = map.size();
  ActiveSetBuilder builder(Model(ActiveSet::kSampled, 40), map);
  Random random(5);
  std::vector<int> times(map.rows());
  constexpr int kRepeats = 4000;
  uint32_t draws = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    ActiveColumns columns;
    builder.Build(Labels({{4, 13}}), {}, nullptr, nullptr, &random, &columns);
    draws = columns.draws;
    for (size_t u = 0; u < columns.rows.size(); ++u) times[columns.rows[u]] += columns.drawn[u];
  }
  CHECK(draws == std::lround(40.0 * here / kNeurons));  // this owner's share
  // Binomial: five standard deviations, for each of some sixty neurons.
  const double chance = static_cast<double>(draws) / here;
  const double bound = 5 * std::sqrt(kRepeats * chance * (1 - chance));
  for (uint32_t row = 0; row < map.rows(); ++row) {
    if (map.Global(row) == SlotMap::kNone) {
      CHECK(times[row] == 0);
    } else {
      CHECK(std::abs(times[row] - kRepeats * chance) < bound);
    }
  }
}

TEST_CASE("active = all takes every neuron once and draws none") {
  const SlotMap map(kNeurons, kSlots, Slots(1, 4));
  ActiveSetBuilder builder(Model(ActiveSet::kAll, 30), map);
  Random random(5);
  ActiveColumns columns;
  builder.Build(Labels({{1, 9}, {2, 8}}), {}, nullptr, nullptr, &random, &columns);
  CHECK(columns.hash_part == map.size());
  CHECK(columns.rows.size() == map.size());
  CHECK(columns.draws == 0);
  CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == map.size());
  CHECK(columns.label_columns.size() == 3);  // 8 lives elsewhere: slot 0
}

TEST_CASE("popular neurons are hash part, once, whether they are labels too or not") {
  const SlotMap map(kNeurons, kSlots, Slots(0, kSlots));
  ActiveSetBuilder builder(Model(ActiveSet::kSampled, 5), map);
  Random random(5);
  ActiveColumns columns;
  const std::vector<uint32_t> popular = {map.Local(3), map.Local(40)};
  builder.Build(Labels({{3, 9}}), popular, nullptr, nullptr, &random, &columns);
  CHECK(columns.hash_part == 3);
  CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == columns.rows.size());
  CHECK(std::find(columns.rows.begin(), columns.rows.begin() + 3, map.Local(40)) !=
        columns.rows.begin() + 3);
}

TEST_CASE("an owner of nothing and one of less than it should draw are no special cases") {
  Random random(5);
  ActiveColumns columns;
  const SlotMap none(kNeurons, kSlots, Slots(0, 0));
  ActiveSetBuilder(Model(ActiveSet::kSampled, 30), none)
      .Build(Labels({{1}}), {}, nullptr, nullptr, &random, &columns);
  CHECK(columns.rows.empty());
  const SlotMap map(kNeurons, kSlots, Slots(0, kSlots));
  ActiveSetBuilder(Model(ActiveSet::kSampled, kNeurons), map)
      .Build(Labels({{1}}), {}, nullptr, nullptr, &random, &columns);
  CHECK(columns.rows.size() == kNeurons);
  CHECK(columns.draws == kNeurons);
}

TEST_CASE("rows without an id are never active, whatever the buckets name and slots do") {
  constexpr uint32_t kTables = 4, kBits = 3, kSamples = 6;
  Random random(17);
  for (int run = 0; run < 30; ++run) {
    SlotMap map(kNeurons, kSlots, Slots(0, static_cast<uint32_t>(random.Below(kSlots + 1))));
    ModelConfig model = Model(ActiveSet::kLsh, 1 + static_cast<uint32_t>(random.Below(90)));
    model.candidates = 40;
    model.popular = 0;
    ActiveSetBuilder builder(model, map);
    HashTables tables(kTables, kBits, map.rows());
    const auto draw = [&](BucketCode* codes, size_t count) {
      for (size_t i = 0; i < count; ++i) codes[i] = static_cast<BucketCode>(random.Below(8));
    };
    for (int step = 0; step < 60; ++step) {
      const SlotId slot{static_cast<uint32_t>(random.Below(kSlots))};
      if (!map.HasRegion(slot)) {
        map.Reserve(slot);
      } else if (!map.Owns(slot)) {
        random.Below(2) == 0 ? map.Attach(slot) : map.Release(slot);
      } else {
        map.Detach(slot);
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
      CHECK(builder.candidates() <= map.size());
      codes.resize(kSamples * kTables);
      draw(codes.data(), codes.size());
      ActiveColumns columns;
      builder.Build(Labels({{1, 9}, {2, 8}, {}, {3}, {4}, {96}}), {}, &tables, codes.data(),
                    &random, &columns);
      for (const uint32_t row : columns.rows) REQUIRE(map.Global(row) != SlotMap::kNone);
      for (const uint32_t u : columns.hit_columns) REQUIRE(u < columns.hash_part);
      CHECK(std::set(columns.rows.begin(), columns.rows.end()).size() == columns.rows.size());
      if (map.size() == 0) CHECK(columns.rows.empty());
      if (map.size() > 0) CHECK(columns.draws > 0);
    }
  }
}

// The mean over draws of a sample's weighted sum of exponentials, and the full sum.
void CheckUnbiased(Sharing sharing) {
  Config config = SmallConfig(20, kNeurons, 6);
  config.model.active = ActiveSet::kAll;
  OutputLayer full(config, AllSlots(config), Purpose::kTraining, BestKernels());
  full.layer().Initialise(3, 0.5f, kNeurons);
  config.model.active = ActiveSet::kSampled;
  config.model.sharing = sharing;
  config.model.uniform = 20;
  OutputLayer sampled(config, AllSlots(config), Purpose::kTraining, BestKernels());
  sampled.layer().Initialise(3, 0.5f, kNeurons);
  ActiveQuery query;
  query.hidden = Matrix(2, 6);
  for (size_t j = 0; j < 12; ++j) query.hidden.data[j] = 0.2f * static_cast<float>(1 + j % 5);
  query.labels = Labels({{10, 20}, {30}});
  query.label_totals = {2, 1};
  const auto sum = [](const ActiveReply& reply, size_t i) {
    return double{reply.sum_exp[i]} * std::exp(double{reply.max[i]});
  };
  OutputBatch batch;
  Random random(9);
  const ActiveReply exact = full.Query(query, {1}, &random, &batch);
  constexpr int kRepeats = 4000;
  double mean[2] = {}, squares[2] = {};
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const ActiveReply reply = sampled.Query(query, {1}, &random, &batch);
    for (size_t i = 0; i < 2; ++i) {
      mean[i] += sum(reply, i) / kRepeats;
      squares[i] += sum(reply, i) * sum(reply, i) / kRepeats;
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    const double error = std::sqrt((squares[i] - mean[i] * mean[i]) / kRepeats);
    CHECK(error > 0);
    CHECK(error < 0.02 * sum(exact, i));
    CHECK(std::abs(mean[i] - sum(exact, i)) < 4 * error);
  }
}

TEST_CASE("the weighted tail keeps the partition function unbiased") {
  CheckUnbiased(Sharing::kBatch);
  CheckUnbiased(Sharing::kSample);
}

}  // namespace
}  // namespace dslide::active_set_test
