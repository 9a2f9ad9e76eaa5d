#include "scheduler/balance/slot_loads.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "scheduler/balance/model_size.h"
#include "scheduler/plan/memory_check.h"

namespace dslide::slot_loads_test {
namespace {

constexpr Incarnation kA{1}, kB{2}, kC{3};

// A report of 1 s: `batches` batches, of which each costs `work[i]` in slot first + i; the slots
// are dealt to the executors in turn.
LoadReport MakeReport(uint32_t first, std::vector<float> work, uint32_t batches,
                      std::vector<float> busy) {
  LoadReport report;
  report.interval_ms = 1000;
  report.batches = batches;
  for (uint32_t i = 0; i < work.size(); ++i) {
    report.slots.push_back(first + i);
    report.executor.push_back(static_cast<uint16_t>(i % busy.size()));
    report.work.push_back(work[i] * static_cast<float>(batches));
    report.bytes.push_back(100);
  }
  report.retrieved.resize(work.size());
  report.used.resize(work.size());
  report.updated.resize(work.size());
  report.service_us.resize(work.size());
  report.busy = std::move(busy);
  return report;
}

TEST_CASE("load is work per batch: neither the rate of batches nor pauses change it") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kA, 2, 0);
  loads.Report(kA, MakeReport(0, {3, 1}, 100, {0.5, 0.5}), 0);
  CHECK(loads.Load(0) == doctest::Approx(3));
  loads.Report(kA, MakeReport(0, {3, 1}, 7, {0.1f, 0.1f}), 0);
  for (int i = 0; i < 100; ++i) loads.Report(kA, MakeReport(0, {0, 0}, 0, {0, 0}), 0);
  CHECK(loads.Load(0) == doctest::Approx(3));
  CHECK(loads.Load(1) == doctest::Approx(1));
  CHECK(loads.SlotBytes(0) == 100);
}

TEST_CASE("the first reports are averaged, then a change shows within about ten seconds") {
  SlotLoads loads(std::vector<uint64_t>(1));
  loads.Add(kA, 1, 0);
  loads.Report(kA, MakeReport(0, {8}, 10, {1}), 0);
  loads.Report(kA, MakeReport(0, {4}, 10, {1}), 0);
  CHECK(loads.Load(0) == doctest::Approx(6));
  for (int i = 0; i < 100; ++i) loads.Report(kA, MakeReport(0, {6}, 10, {1}), 0);
  for (int i = 0; i < 10; ++i) loads.Report(kA, MakeReport(0, {16}, 10, {1}), 0);
  CHECK(loads.Load(0) == doctest::Approx(6 + 10 * (1 - std::exp(-1))));
}

TEST_CASE("capacity is work per busy second, summed over executors") {
  SlotLoads loads(std::vector<uint64_t>(8));
  loads.Add(kA, 2, 0);
  loads.Add(kB, 4, 0);
  CHECK_FALSE(loads.CapacityMeasured(kA));
  CHECK(loads.Capacity(kA) == 2);
  // 10 batches of 30 and 10 a batch: 300 in half a second, 100 in a sixth.
  loads.Report(kA, MakeReport(0, {30, 10}, 10, {0.5f, 1 / 6.0f}), 0);
  CHECK(loads.CapacityMeasured(kA));
  CHECK(loads.Capacity(kA) == doctest::Approx(1200));
  CHECK(loads.Capacity(kB) == doctest::Approx(2400));  // by its cores
  CHECK(loads.BusyShare(kA) == doctest::Approx(1 / 3.0));
  CHECK(loads.ExecutorSkew(kA) == doctest::Approx(1.5));
  CHECK(loads.ExecutorSkew(kB) == 1);
  // Executors that hardly worked do not tell, and one without slots counts like the others.
  loads.Report(kA, MakeReport(0, {30, 1}, 10, {0.5f, 0.04f}), 0);
  CHECK(loads.Capacity(kA) == doctest::Approx(1200));
  loads.Report(kB, MakeReport(4, {50}, 10, {0.5f, 0.0f, 0.0f, 0.0f}), 0);
  CHECK(loads.Capacity(kB) == doctest::Approx(4000));
  loads.Keep({kB});
  loads.Add(kC, 1, 0);
  CHECK(loads.Capacity(kC) == doctest::Approx(1000));
}

TEST_CASE("what a server does with its first slots does not tell its capacity") {
  SlotLoads loads(std::vector<uint64_t>(4));
  for (const Incarnation server : {kA, kB}) loads.Add(server, 1, 0);
  loads.WarmUp(kB);
  loads.Report(kA, MakeReport(0, {30}, 10, {0.5f}), 0);
  loads.Report(kB, MakeReport(1, {}, 10, {0.0f}), 0);  // it has none yet
  for (int report = 0; report < 5; ++report) {
    loads.Report(kB, MakeReport(1, {30}, 10, {1.0f}), 0);
    CHECK_FALSE(loads.CapacityMeasured(kB));
    CHECK(loads.Capacity(kB) == doctest::Approx(600));  // as the other
    CHECK(loads.Load(1) == doctest::Approx(30));
  }
  loads.Report(kB, MakeReport(1, {30}, 10, {0.25f}), 0);
  CHECK(loads.Capacity(kB) == doctest::Approx(1200));
}

TEST_CASE("while a server warms up to other slots its reports change nothing that is known") {
  SlotLoads loads(std::vector<uint64_t>(4));
  loads.Add(kA, 1, 0);
  loads.Report(kA, MakeReport(0, {30}, 10, {0.5f}), 0);
  loads.WarmUp(kA);
  for (int report = 0; report < 5; ++report) {
    loads.Report(kA, MakeReport(0, {90, 20}, 10, {1.0f}), 0);  // of batches that began anew, too
    CHECK(loads.Capacity(kA) == doctest::Approx(600));
    CHECK(loads.Load(0) == doctest::Approx(30));
    CHECK(loads.Load(1) == doctest::Approx(20));
  }
  loads.Report(kA, MakeReport(0, {60, 20}, 10, {1.0f}), 0);
  CHECK(loads.Load(0) == doctest::Approx(45));
  CHECK(loads.Capacity(kA) > 600);
}

TEST_CASE("a slot's load goes with it, and what covers a part of an interval does not count") {
  SlotLoads loads(std::vector<uint64_t>(2));
  for (const Incarnation server : {kA, kB}) loads.Add(server, 1, 0);
  loads.Report(kA, MakeReport(0, {5, 5}, 10, {0.5}), 0);
  loads.Report(kB, MakeReport(1, {1}, 10, {0.05f}), 0);
  CHECK(loads.Load(1) == doctest::Approx(5));
  loads.Report(kB, MakeReport(1, {5}, 10, {0.25}), 0);
  CHECK(loads.Load(1) == doctest::Approx(5));
  const std::vector<Incarnation> servers = {kA, kB};
  const std::vector<uint16_t> before = {0, 0}, after = {0, 1};
  CHECK(loads.Imbalance(servers, before) == doctest::Approx(2));
  CHECK(loads.Imbalance(servers, after) == doctest::Approx(1));
  loads.Keep({kB});
  CHECK(loads.Load(0) == doctest::Approx(5));
}

// The estimates differ for a joiner that is not believed yet, and after slots have moved.
TEST_CASE("what people are shown as load agrees with how busy servers are") {
  SlotLoads loads(std::vector<uint64_t>(4));
  loads.Add(kA, 1, 0);
  loads.Add(kB, 1, 0, /*newcomer=*/true);
  const std::vector<Incarnation> servers = {kA, kB};
  const std::vector<uint16_t> slot_owner = {0, 0, 1, 1};
  loads.Report(kA, MakeReport(0, {20, 20}, 10, {0.8f}), 0);
  // Nothing is measured of B: its load is estimated.
  CHECK(loads.MeasuredLoads(servers, slot_owner) == loads.RelativeLoads(servers, slot_owner));
  loads.Report(kB, MakeReport(2, {20, 20}, 10, {0.2f}), 0);
  const std::vector<double> estimated = loads.RelativeLoads(servers, slot_owner);
  CHECK(estimated[1] == doctest::Approx(1));  // at first no faster than A
  const std::vector<double> shown = loads.MeasuredLoads(servers, slot_owner);
  CHECK(shown[0] == doctest::Approx(1.6));
  CHECK(shown[1] == doctest::Approx(0.4));
  CHECK(shown[0] / shown[1] == doctest::Approx(loads.BusyShare(kA) / loads.BusyShare(kB)));
  // Both are of some time, and one report changes neither by much; a pause leaves the loads.
  loads.Report(kB, MakeReport(2, {20, 20}, 10, {1.0f}), 0);
  const double ratio = loads.BusyShare(kA) / loads.BusyShare(kB);
  CHECK(loads.BusyShare(kB) == doctest::Approx(0.6));
  const std::vector<double> later = loads.MeasuredLoads(servers, slot_owner);
  CHECK(later[0] / later[1] == doctest::Approx(ratio));
  // A server without slots has no load, and is not in the mean.
  const std::vector<double> one = loads.MeasuredLoads(servers, std::vector<uint16_t>{0, 0, 0, 0});
  CHECK(one == std::vector<double>{1.0, 0.0});
}

TEST_CASE("the planner's input") {
  SlotLoads loads(std::vector<uint64_t>(4));
  loads.Add(kA, 1, 1000);
  loads.Add(kB, 1, 0);
  loads.Report(kA, MakeReport(0, {6, 2}, 10, {0.5}), 350);  // 150 bytes are not slots'
  const std::vector<Incarnation> servers = {kA, kB};
  const auto owners = loads.Owners(servers, {false, true});
  CHECK(owners[0] == BalanceOwner{160, 850, false});
  CHECK(owners[1] == BalanceOwner{160, 0, true});
  const std::vector<uint16_t> slot_owner = {0, 0, 1, 0xffff};
  const auto slots = loads.Slots(slot_owner, 2);
  CHECK(slots[0].load == doctest::Approx(6));
  CHECK(slots[0].bytes == 100);
  CHECK(slots[2].load == doctest::Approx(4));  // not measured: an average one
  CHECK(slots[2].owner == 1);
  CHECK(slots[3].owner == kNoOwner);
  const auto relative = loads.RelativeLoads(servers, slot_owner);
  CHECK(relative[0] == doctest::Approx(8 / 6.0));
  CHECK(relative[1] == doctest::Approx(4 / 6.0));
  CHECK(loads.Imbalance(servers, slot_owner) == doctest::Approx(8 / 6.0));
  CHECK(loads.SecondsPerBatch(servers, slot_owner) == doctest::Approx(8 / 160.0));
  // Too little for what it uses: nothing comes to it.
  loads.Report(kA, MakeReport(0, {6, 2}, 10, {0.5}), 5000);
  CHECK(loads.Owners(servers, {false, false})[0].memory_bytes == 1);
}

TEST_CASE("servers hold more than their memory if all have too little and there are disks") {
  const std::vector<Incarnation> servers = {kA, kB};
  const auto bytes = [&](uint64_t slots, uint64_t disk_a, uint64_t disk_b) {
    SlotLoads loads(std::vector<uint64_t>(10, slots));
    loads.Add(kA, 1, 1000, false, disk_a);
    loads.Add(kB, 1, 3000, false, disk_b);
    const auto owners = loads.Owners(servers, {false, false});
    return std::pair(owners[0].memory_bytes, owners[1].memory_bytes);
  };
  CHECK(bytes(400, 1u << 30, 1u << 30) == std::pair<uint64_t, uint64_t>(1000, 3000));
  // By the same factor, and a slot more: what is left of whole slots.
  CHECK(bytes(1000, 1u << 30, 1u << 30) == std::pair<uint64_t, uint64_t>(3500, 8500));
  CHECK(bytes(1000, 0, 2000) == std::pair<uint64_t, uint64_t>(1000, 5000));
}

TEST_CASE("few rows fit on a disk where most of them stays in memory") {
  Config config;
  config.cluster.slots = 16;
  const auto times = [&](uint32_t hidden) {
    config.model.hidden = hidden;
    ResolveConfig(1'000'000, 1'000'000, &config);
    return static_cast<double>(WithDisk(config, 1'000'000'000, uint64_t{1} << 50)) / 1e9;
  };
  CHECK(times(8) == 1);
  CHECK(times(32) > 1);
  CHECK(times(32) < 3);
  CHECK(times(512) > 10);
  CHECK(times(512) <= 14);
  config.train.open_vocabulary = true;
  CHECK(times(512) == 1);
}

TEST_CASE("a server with little memory may join if it has disk for the rest") {
  Config config;
  config.model.hidden = 128;
  config.cluster.slots = 16;
  ResolveConfig(1'000'000, 1'000'000, &config);
  const Roster roster(1000);
  Join join;
  join.memory_bytes = ModelMemoryBytes(config) / 4;
  CHECK(WhyTooSmall(join, config, roster, false).starts_with("too little memory: the model needs"));
  // The file has a third more room than two million records of 512 bytes.
  constexpr uint64_t kRecords = 2'000'000 * uint64_t{512};
  join.disk_bytes = kRecords / 3 * 4;
  CHECK(WhyTooSmall(join, config, roster, false).starts_with("too little memory: the model needs"));
  join.disk_bytes = kRecords / 2 * 3;
  CHECK(WhyTooSmall(join, config, roster, false).empty());
  CHECK(WhyAllTooSmall(join.memory_bytes, config).empty());
  config.cluster.disk_tier = "off";
  CHECK(WhyAllTooSmall(join.memory_bytes, config).starts_with("too little memory"));
}

TEST_CASE("nonsense and strangers are ignored") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kA, 1, 0);
  loads.Report(kB, MakeReport(0, {6, 2}, 10, {0.5}), 0);
  LoadReport report = MakeReport(0, {6, 2}, 10, {0.5});
  report.slots[1] = 7;
  report.work[0] = std::numeric_limits<float>::infinity();
  report.executor[1] = 9;
  loads.Report(kA, report, 0);
  CHECK(loads.Load(0) == 0);
  CHECK_FALSE(loads.CapacityMeasured(kA));
  CHECK(loads.Imbalance(std::vector<Incarnation>{kA}, std::vector<uint16_t>{0, 0}) == 1);
}

TEST_CASE("what a server can do is not forgotten while it has too little to do to tell") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kA, 2, 0);
  loads.Add(kB, 2, 0);
  loads.Report(kA, MakeReport(0, {400}, 10, {0.5f}), 0);
  loads.Report(kB, MakeReport(1, {100}, 10, {0.5f}), 0);
  for (int i = 0; i < 9000; ++i) {
    loads.Report(kA, MakeReport(0, {400}, 1, {0.04f}), 0);
    loads.Report(kB, MakeReport(1, {100}, 1, {0.04f}), 0);
  }
  CHECK(loads.Capacity(kA) == doctest::Approx(8000));
  CHECK(loads.Capacity(kB) == doctest::Approx(2000));
}

TEST_CASE("a slot has the bytes that are expected of it until they are reported") {
  SlotLoads loads(std::vector<uint64_t>(2, 700));
  loads.Add(kA, 1, 0);
  CHECK(loads.SlotBytes(0) == 700);
  loads.Report(kA, MakeReport(0, {1}, 10, {0.5f}), 0);
  CHECK(loads.SlotBytes(0) == 100);
  CHECK(loads.SlotBytes(1) == 700);
}

// Batches by a plan in which A has slot 0 and B slot 1.
void DoBatches(SlotLoads* loads, uint32_t batches) {
  Plan plan;
  plan.version = 9;
  plan.servers = {{"a", "", kA}, {"b", "", kB}};
  plan.slot_owner = {0, 1};
  for (uint32_t i = 0; i < batches; ++i) loads->OnBatch(plan);
}

TEST_CASE("a newcomer is worth no more than the others until it has proved more") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kA, 2, 0);
  loads.Add(kB, 4096, 0, true);
  loads.Report(kA, MakeReport(0, {400}, 10, {0.5f}), 0);  // 8,000 a second
  CHECK(loads.Unproven(kB));
  CHECK_FALSE(loads.Unproven(kA));
  CHECK(loads.Capacity(kB) == doctest::Approx(8000));
  loads.Report(kB, MakeReport(1, {1e9f}, 10, {0.5f}), 0);  // what it says of its speed
  CHECK(loads.Capacity(kB) == doctest::Approx(8000));
  DoBatches(&loads, SlotLoads::kProofBatches);
  CHECK_FALSE(loads.Unproven(kB));
  CHECK(loads.Capacity(kB) == doctest::Approx(16000));
  DoBatches(&loads, SlotLoads::kProofBatches);
  CHECK(loads.Capacity(kB) == doctest::Approx(32000));
  DoBatches(&loads, 20 * SlotLoads::kProofBatches);
  CHECK(loads.Capacity(kB) > 1e9);
}

TEST_CASE("newcomers that are slower, or all there are, are taken as they are") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kB, 7, 0, true);
  CHECK(loads.Capacity(kB) == 7);
  loads.Add(kA, 2, 0);
  CHECK(loads.Capacity(kB) == 2);
  loads.Add(kB, 1, 0, true);
  CHECK(loads.Capacity(kB) == 1);
}

TEST_CASE("many newcomers together are worth no more than the others") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kA, 2, 0);
  loads.Add(kB, 4, 0);
  double newcomers = 0;
  for (uint64_t i = 0; i < 100; ++i) loads.Add({100 + i}, 4096, 0, true);
  for (uint64_t i = 0; i < 100; ++i) newcomers += loads.Capacity({100 + i});
  CHECK(newcomers == doctest::Approx(6));
}

TEST_CASE("a server tells nothing of others' slots, and nothing that has no end") {
  SlotLoads loads(std::vector<uint64_t>(2));
  loads.Add(kA, 1, 0);
  loads.Add(kB, 1, 0);
  Plan plan;
  plan.servers = {{"a", "", kA}, {"b", "", kB}};
  plan.slot_owner = {0, 1};
  LoadReport report = MakeReport(0, {5, 7}, 10, {0.5f});
  report.bytes = {UINT64_MAX, 1};
  loads.Report(kA, report, UINT64_MAX, &plan);
  CHECK(loads.Load(0) == doctest::Approx(5));
  CHECK(loads.SlotBytes(0) == uint64_t{1} << 46);
  CHECK(loads.MemoryUsed(kA) == uint64_t{1} << 46);
  CHECK(loads.SlotBytes(1) == 0);
}

TEST_CASE("the bytes of all slots are those of the model") {
  for (const uint32_t labels : {3u, 40u, 1001u}) {
    Config config;
    config.model.hidden = 8;
    config.model.dense = {8, 4};
    config.cluster.slots = 16;
    ResolveConfig(100, labels, &config);
    const std::vector<uint64_t> slots = SlotMemoryBytes(config);
    CHECK(ModelMemoryBytes(config) == std::accumulate(slots.begin(), slots.end(), uint64_t{0}));
  }
}

}  // namespace
}  // namespace dslide::slot_loads_test
