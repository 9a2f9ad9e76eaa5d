#include "server/model/sampling/importance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "common/base/random.h"

namespace dslide::importance_test {
namespace {

constexpr uint32_t kNeurons = 5000;
constexpr uint32_t kSlots = 8;

Config MassConfig() {
  Config config;
  config.model.hidden = 4;
  config.model.features = 10;
  config.model.labels = kNeurons;
  config.model.active = ActiveSet::kMass;
  config.model.precision = Precision::kFp32;
  config.train.moments = MomentPrecision::kFp32;
  config.cluster.slots = kSlots;
  return config;
}

std::vector<SlotId> Slots(uint32_t begin, uint32_t end) {
  std::vector<SlotId> slots;
  for (uint32_t slot = begin; slot < end; ++slot) slots.push_back({slot});
  return slots;
}

// Zipf-like: few neurons have most of the mass, and some were never active.
float MassOf(uint32_t id) {
  if (id % 11 == 3) return 0;
  return 0.2f / static_cast<float>(1 + (id * 2654435761u) % kNeurons);
}

struct Neurons {
  explicit Neurons(const std::vector<SlotId>& slots)
      : layer(LayerKind::kOutput, MassConfig(), SlotMap(kNeurons, kSlots, slots),
              Purpose::kTraining, BestKernels()) {
    for (const SlotId slot : slots) Observe(slot);
    buckets.emplace(layer);
  }

  void Observe(SlotId slot) {
    for (uint32_t row = 0; row < layer.map().SlotSize(slot); ++row) {
      const uint32_t id = row * kSlots + slot.value;
      if (MassOf(id) == 0) continue;
      const uint32_t local = layer.map().LocalRow(slot, row);
      layer.changed().BeforeChange(local);
      layer.ObserveMass(local, MassOf(id));
    }
  }

  // The probability of each id that was drawn.
  std::map<uint32_t, float> Draw(uint32_t expected, uint64_t seed) const {
    std::vector<ImportanceBuckets::Draw> draws;
    buckets->Sample(expected, seed, &draws);
    std::map<uint32_t, float> ids;
    for (const auto& draw : draws) ids[layer.map().Global(draw.row)] = draw.pi;
    CHECK(ids.size() == draws.size());
    return ids;
  }

  Layer layer;
  std::optional<ImportanceBuckets> buckets;
};

TEST_CASE("importance: neurons are drawn as often as their probabilities say") {
  const Neurons neurons(Slots(0, kSlots));
  neurons.buckets->CheckInvariants();
  constexpr uint32_t kRounds = 4000, kExpected = 500;
  std::map<uint32_t, float> pi;
  std::vector<uint32_t> counts(kNeurons);
  double total = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (const auto& [id, p] : neurons.Draw(kExpected, SubSeed(7, round))) {
      CHECK(pi.try_emplace(id, p).first->second == p);
      ++counts[id];
      ++total;
    }
  }
  CHECK(total / kRounds == doctest::Approx(kExpected).epsilon(0.01));
  CHECK(pi.size() == kNeurons);  // the least one has its chance
  double squares = 0;            // of normalised deviations: about one each
  size_t uncertain = 0;
  for (const auto& [id, p] : pi) {
    if (p >= 1) {
      CHECK(counts[id] == kRounds);
      continue;
    }
    const double deviation = (counts[id] - kRounds * double{p});
    squares += deviation * deviation / (kRounds * double{p} * (1 - double{p}));
    ++uncertain;
  }
  REQUIRE(uncertain > 4000);
  const auto n = static_cast<double>(uncertain);
  CHECK(std::abs(squares / n - 1) < 5 * std::sqrt(2 / n));
}

TEST_CASE("importance: probabilities follow the masses") {
  const Neurons neurons(Slots(0, kSlots));
  std::map<uint32_t, float> pi;
  for (uint32_t round = 0; round < 2000; ++round) pi.merge(neurons.Draw(300, round));
  for (const auto& [a, pa] : pi) {
    const auto b = pi.find(a + kSlots);  // in the same slot
    if (b == pi.end() || MassOf(a) == 0 || MassOf(b->first) == 0) continue;
    const double ratio = double{MassOf(a)} / double{MassOf(b->first)};
    if (ratio >= 2) CHECK(pa >= b->second);
    const double least = 0.25 / kNeurons;
    if (pa < 1 && b->second < 1 && MassOf(a) > least && MassOf(b->first) > least) {
      CHECK(pa / b->second <= 2.001 * ratio);
      CHECK(pa / b->second >= 0.499 * ratio);
    }
  }
}

TEST_CASE("importance: draws depend neither on who owns a slot nor on the past of its classes") {
  const Neurons all(Slots(0, kSlots)), left(Slots(0, 3)), right(Slots(3, kSlots));
  Neurons moved(Slots(0, kSlots));
  // Every row has been in another class, and is back.
  for (uint32_t row = 0; row < moved.layer.map().rows(); ++row) {
    if (moved.layer.map().Global(row) == SlotMap::kNone) continue;
    std::vector<uint8_t> bytes(moved.layer.RowBytes());
    moved.layer.StoreRow(row, bytes.data());
    for (int i = 0; i < 100; ++i) moved.layer.ObserveMass(row, 0.9f);
    moved.buckets->FollowMass(row);
    moved.layer.LoadRow(row, bytes.data());
    moved.buckets->FollowMass(row);
  }
  moved.buckets->CheckInvariants();
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto expected = all.Draw(300, seed);
    auto parts = left.Draw(300, seed);
    parts.merge(right.Draw(300, seed));
    CHECK(parts == expected);
    CHECK(moved.Draw(300, seed) == expected);
  }
}

TEST_CASE("importance: slots that come and go, and rows that are loaded") {
  Neurons neurons(Slots(0, 6));
  Layer& layer = neurons.layer;
  const auto follow = [&] {
    neurons.buckets->FollowMap();
    neurons.buckets->CheckInvariants();
  };
  layer.Detach({2});
  follow();
  layer.Release({2});
  layer.Reserve({7});  // where slot 2 was
  layer.Reserve({6});  // behind all others
  follow();
  neurons.Observe({7});
  neurons.Observe({6});
  layer.Attach({7});
  layer.Attach({6});
  follow();
  layer.Detach({0});
  follow();
  const Neurons expected([] {
    std::vector<SlotId> slots = Slots(0, kSlots);
    std::erase_if(slots, [](SlotId slot) { return slot.value == 0 || slot.value == 2; });
    return slots;
  }());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(neurons.Draw(700, seed) == expected.Draw(700, seed));
  }
  std::vector<uint8_t> bytes(layer.RowBytes());
  for (uint32_t row = 0; row < 100; ++row) {  // with other masses
    layer.StoreRow(layer.map().LocalRow({3}, row), bytes.data());
    layer.LoadRow(layer.map().LocalRow({4}, row), bytes.data());
  }
  neurons.buckets->FollowLoad();
  neurons.buckets->CheckInvariants();
}

TEST_CASE("importance: as many draws as there are neurons are all of them") {
  const Neurons neurons(Slots(0, kSlots));
  for (const uint32_t expected : {kNeurons, 2 * kNeurons}) {
    const auto drawn = neurons.Draw(expected, 1);
    CHECK(drawn.size() == kNeurons);
    for (const auto& [id, p] : drawn) CHECK(p == 1);
  }
}

}  // namespace
}  // namespace dslide::importance_test
