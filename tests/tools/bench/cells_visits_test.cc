#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "common/base/random.h"
#include "common/run/combine.h"
#include "common/run/slot_plan.h"
#include "tools/bench/cells/study.h"
#include "tools/bench/cells/visits.h"

namespace dslide::cells {
namespace {

constexpr uint32_t kServers = 6;
constexpr uint32_t kNeurons = 60;

Config TestConfig() {
  Config config;
  config.model.hidden = 8;
  config.model.precision = Precision::kFp32;
  config.model.active = ActiveSet::kAll;
  config.cluster.slots = 12;
  config.cluster.input_slots = 0;
  config.train.batch = 16;
  config.train.epochs = 2;
  ResolveConfig(30, kNeurons, &config, {64, 100});
  return config;
}

Plan TestPlan() { return EqualPlan(1, 12, std::vector<PlanServer>(kServers)); }

SparseRows TwoLabelsEach(uint32_t samples) {
  SparseRows labels;
  for (uint32_t i = 0; i < samples; ++i) {
    labels.ids.push_back(i % 20);
    labels.ids.push_back(20 + 7 * i % 40);
    labels.EndRow();
  }
  return labels;
}

TEST_CASE("cells: a sample visits the owners of its labels and m others") {
  const Config config = TestConfig();
  const Plan plan = TestPlan();
  const SparseRows labels = TwoLabelsEach(40);
  for (const uint32_t m : {1u, 3u, 9u}) {
    Visits visits(config, plan, {m});
    visits.Begin(3, labels);
    for (uint32_t i = 0; i < labels.rows(); ++i) {
      std::set<uint32_t> owners;
      for (const uint32_t label : labels.Ids(i)) {
        owners.insert(plan.slot_owner[OutputSlots(config.cluster).SlotOf(label).value]);
      }
      const auto others = static_cast<uint32_t>(kServers - owners.size());
      const uint32_t drawn = std::min(m, others);
      uint32_t visited = 0;
      for (uint32_t s = 0; s < kServers; ++s) {
        const float weight = visits.weights()[s][i];
        if (owners.contains(s)) {
          CHECK(weight == 1);
        } else if (weight != 0) {
          visited++;
          CHECK(weight == doctest::Approx(static_cast<float>(others) / static_cast<float>(drawn)));
        }
      }
      CHECK(visited == drawn);
    }
  }
}

TEST_CASE("cells: the partition function of visited servers is right in the mean") {
  const Config config = TestConfig();
  const Plan plan = TestPlan();
  const SparseRows labels = TwoLabelsEach(5);
  Random random(5);
  std::vector<ActiveReply> parts(kServers);
  for (ActiveReply& part : parts) {
    for (uint32_t i = 0; i < labels.rows(); ++i) {
      part.max.push_back(static_cast<float>(random.Normal()));
      part.sum_exp.push_back(static_cast<float>(1 + random.Uniform()));
      part.target_logit.push_back(0);
      part.active.push_back(10);
    }
  }
  std::vector<double> whole(labels.rows()), mean(labels.rows());
  const std::vector<float> exact = LogNormaliser(MergeActive(parts));
  for (uint32_t i = 0; i < labels.rows(); ++i) whole[i] = std::exp(double{exact[i]});
  Visits visits(config, plan, {2});
  constexpr int kDraws = 20000;
  for (int draw = 0; draw < kDraws; ++draw) {
    visits.Begin(static_cast<uint64_t>(draw), labels);
    std::vector<ActiveReply> seen;
    for (uint32_t s = 0; s < kServers; ++s) {
      Body body = parts[s];
      visits.Received(s, &body);
      seen.push_back(std::get<ActiveReply>(body));
    }
    const std::vector<float> found = LogNormaliser(MergeActive(seen));
    for (uint32_t i = 0; i < labels.rows(); ++i) mean[i] += std::exp(double{found[i]}) / kDraws;
  }
  for (uint32_t i = 0; i < labels.rows(); ++i) {
    CHECK(mean[i] == doctest::Approx(whole[i]).epsilon(0.02));
  }
}

Dataset Generated(uint32_t samples, uint64_t seed) {
  Dataset data(30, kNeurons);
  Random random(seed);
  for (uint32_t n = 0; n < samples; ++n) {
    const auto label = static_cast<uint32_t>(random.Below(10));
    const std::vector<uint32_t> labels = {label};
    const std::vector<uint32_t> features = {label, 10 + static_cast<uint32_t>(random.Below(20))};
    const std::vector<float> values = {1, 0.3f};
    data.Add({labels, features, values});
  }
  return data;
}

TEST_CASE("cells: a sample that visits all servers trains as without visits") {
  const Config config = TestConfig();
  const StudyData data{Generated(64, 1), Generated(20, 2)};
  const StudyResult all = RunVisits(config, data, kServers, {kServers});
  const StudyResult plain = RunCells(config, data, {});
  CHECK(all.visits == kServers);
  CHECK(all.samples == 128);
  CHECK(all.loss == doctest::Approx(plain.loss).epsilon(1e-3));
  CHECK(all.metrics.precision[0] == doctest::Approx(plain.metrics.precision[0]));
  // Fewer visits send less, and learn something else.
  const StudyResult few = RunVisits(config, data, kServers, {1});
  CHECK(few.visits == 2);
  CHECK(few.bytes_per_sample < all.bytes_per_sample);
  CHECK(few.loss != all.loss);
}

TEST_CASE("cells: groups share an epoch's samples, and one seed gives one result") {
  const Dataset train = Generated(64, 1);
  for (const bool blocks : {false, true}) {
    const auto divided = DivideOverGroups(train, 3, 1, 3, blocks);
    std::multiset<uint32_t> samples;
    for (uint32_t g = 0; g < 3; ++g) {
      for (const uint32_t number : divided[g]) {
        CHECK((blocks ? number * 3 / 64 : number % 3) == g);
        samples.insert(number);
      }
    }
    CHECK(samples.size() == 64);
    CHECK(std::set(samples.begin(), samples.end()).size() == 64);
  }
  Config config = TestConfig();
  config.train.batch = 8;
  const StudyData data{train, Generated(20, 2)};
  CellsOptions options;
  options.groups = 2;
  options.exchange_first = options.exchange_last = 32;
  const StudyResult once = RunCells(config, data, options), again = RunCells(config, data, options);
  CHECK(once.input.exchanges == 5);
  CHECK(once.loss == again.loss);
  CHECK(once.output.sent == again.output.sent);
  CHECK(once.metrics.precision[0] == again.metrics.precision[0]);
  // A lag changes what a batch sees, and loses none.
  options.lag = 3;
  const StudyResult lagging = RunCells(config, data, options);
  CHECK(lagging.samples == once.samples);
  CHECK(lagging.loss != once.loss);
  CHECK(lagging.loss == doctest::Approx(once.loss).epsilon(0.2));
}

}  // namespace
}  // namespace dslide::cells
