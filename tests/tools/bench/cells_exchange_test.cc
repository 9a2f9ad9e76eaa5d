#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "common/math/kernels.h"
#include "common/run/slot_rows.h"
#include "tools/bench/cells/exchange.h"

namespace dslide::cells {
namespace {

constexpr uint32_t kDim = 8;
constexpr uint32_t kNeurons = 12;

Config TestConfig() {
  Config config;
  config.model.hidden = kDim;
  config.model.precision = Precision::kFp32;
  config.model.active = ActiveSet::kAll;
  config.cluster.slots = 2;
  config.cluster.input_slots = 0;
  ResolveConfig(20, kNeurons, &config);
  return config;
}

// Copies of a layer of neurons, one a group.
class Groups {
 public:
  Groups(size_t count, const ExchangeRules& rules) {
    std::vector<Layer*> layers;
    for (size_t g = 0; g < count; ++g) {
      layers_.push_back(std::make_unique<Layer>(LayerKind::kOutput, config_,
                                                SlotMap(kNeurons, 2, std::vector<SlotId>{{0}, {1}}),
                                                Purpose::kTraining, BestKernels()));
      layers_.back()->Initialise(1, 0.3f, kNeurons);
      layers.push_back(layers_.back().get());
    }
    exchange_ = std::make_unique<LayerExchange>(layers, rules);
  }

  Layer& operator[](size_t group) { return *layers_[group]; }
  LayerExchange& exchange() { return *exchange_; }

  // One update with a gradient that is all `g`.
  void Update(size_t group, uint32_t row, float g) {
    const std::vector<float> gradient(kDim, g);
    layers_[group]->Update(row, 0.1f, gradient.data(), g, true);
  }
  std::vector<float> Row(size_t group, uint32_t row) {
    const RowView view = layers_[group]->row(row);
    std::vector<float> all(view.weights, view.weights + kDim);
    all.push_back(view.scalars->bias);
    return all;
  }
  float Sum(size_t group, uint32_t row) { return layers_[group]->row(row).scalars->moment2; }

 private:
  Config config_ = TestConfig();
  std::vector<std::unique_ptr<Layer>> layers_;
  std::unique_ptr<LayerExchange> exchange_;
};

float Distance(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST_CASE("cells: changes of different rows all arrive, and untouched rows stay") {
  ExchangeRules rules;
  rules.round = false;
  Groups groups(3, rules);
  const std::vector<float> untouched = groups.Row(0, 5);
  for (uint32_t g = 0; g < 3; ++g) groups.Update(g, g, 1);
  std::vector<std::vector<float>> wanted;
  for (uint32_t g = 0; g < 3; ++g) wanted.push_back(groups.Row(g, g));
  const Traffic traffic = groups.exchange().Exchange(false);
  for (size_t group = 0; group < 3; ++group) {
    for (uint32_t row = 0; row < 3; ++row) {
      CHECK(Distance(groups.Row(group, row), wanted[row]) < 1e-6f);
      CHECK(groups.Sum(group, row) == groups.Sum(0, row));
    }
    CHECK(groups.Row(group, 5) == untouched);
  }
  CHECK(traffic.touched == 3);
  CHECK(traffic.sent == 3);
  CHECK(traffic.merged == 3);
  const double bytes = 14 + 4 + kDim;
  CHECK(traffic.direct_bytes == doctest::Approx(2 * 3 * bytes));
  CHECK(traffic.owner_bytes == doctest::Approx((2.0 / 3 * 3 + 2 * 3) * bytes));
}

TEST_CASE("cells: a row that two groups have changed gets both changes and both accumulators") {
  ExchangeRules rules;
  rules.round = false;
  Groups groups(2, rules);
  const std::vector<float> before = groups.Row(0, 4);
  groups.Update(0, 4, 1);
  groups.Update(1, 4, -2);
  groups.Update(1, 4, -2);
  const std::vector<float> first = groups.Row(0, 4), second = groups.Row(1, 4);
  const float sums = groups.Sum(0, 4) + groups.Sum(1, 4);
  groups.exchange().Exchange(false);
  std::vector<float> wanted(before);
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += first[i] + second[i] - 2 * before[i];
  for (size_t group = 0; group < 2; ++group) {
    CHECK(Distance(groups.Row(group, 4), wanted) < 1e-6f);
    CHECK(groups.Sum(group, 4) == doctest::Approx(sums));
  }
  // Nothing is new: nothing is sent.
  CHECK(groups.exchange().Exchange(false).touched == 0);
}

TEST_CASE("cells: accumulators grow by all or by the mean, or as the change was merged") {
  for (const auto& [sums, of_equal, of_orthogonal] :
       {std::tuple{SumsRule::kAll, 1.0f, 1.0f}, std::tuple{SumsRule::kMean, 0.5f, 0.5f},
        std::tuple{SumsRule::kFollow, 0.5f, 1.0f}}) {
    ExchangeRules rules;
    rules.rule = MergeRule::kAdasum;
    rules.sums = sums;
    rules.round = false;
    Groups groups(2, rules);
    for (size_t group = 0; group < 2; ++group) {
      groups.Update(group, 1, 1);
      // Row 2 moves in directions that have nothing in common.
      std::vector<float> half(kDim);
      std::fill_n(half.begin() + static_cast<int>(group * kDim / 2), kDim / 2, 1.0f);
      groups[group].Update(2, 0.1f, half.data(), 0, true);
    }
    const float equal = 2 * groups.Sum(0, 1), orthogonal = 2 * groups.Sum(0, 2);
    groups.exchange().Exchange(true);
    CHECK(groups.Sum(1, 1) == doctest::Approx(of_equal * equal));
    CHECK(groups.Sum(1, 2) == doctest::Approx(of_orthogonal * orthogonal));
  }
}

TEST_CASE("cells: what rounding cuts off is not lost over many exchanges") {
  for (const bool round : {false, true}) {
    ExchangeRules rules;
    rules.round = round;
    Groups groups(2, rules);
    // The same updates in both, so that the sum of changes is known.
    const std::vector<float> begin = groups.Row(0, 2);
    std::vector<float> moved(begin.size());
    Random random(7);
    for (int step = 0; step < 200; ++step) {
      const size_t group = random.Below(2);
      std::vector<float> gradient(kDim);
      for (float& g : gradient) g = static_cast<float>(random.Normal());
      const std::vector<float> before = groups.Row(group, 2);
      groups[group].Update(2, 0.1f, gradient.data(), 0.5f, true);
      const std::vector<float> after = groups.Row(group, 2);
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += after[i] - before[i];
      if (step % 3 == 0) groups.exchange().Exchange(false);
    }
    groups.exchange().Exchange(true);
    std::vector<float> wanted(begin);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += moved[i];
    groups.exchange().TakeBase(0);
    // A change of a few updates is at most some tenths; 1/127 of that may be on its way.
    CHECK(Distance(groups.Row(0, 2), wanted) < (round ? 0.01f : 1e-4f));
  }
}

TEST_CASE("cells: a small change is held back, and sent when it has grown or at the end") {
  ExchangeRules rules;
  rules.round = false;
  rules.hold_back = 0.5f;
  Groups groups(2, rules);
  groups.Update(0, 1, 1);
  groups.exchange().Exchange(false);  // the first one sends all, and says what is small
  const std::vector<float> before = groups.Row(1, 3);
  std::vector<float> tiny(kDim, 0.0f);
  groups[0].Update(3, 1e-6f, std::vector<float>(kDim, 1.0f).data(), 0, true);
  groups.Update(0, 1, 1);
  Traffic traffic = groups.exchange().Exchange(false);
  CHECK(traffic.touched == 2);
  CHECK(traffic.sent == 1);
  CHECK(groups.Row(1, 3) == before);
  traffic = groups.exchange().Exchange(true);
  CHECK(traffic.sent == 1);
  CHECK(groups.Row(1, 3) != before);
  CHECK(Distance(groups.Row(1, 3), groups.Row(0, 3)) < 1e-7f);
}

TEST_CASE("cells: momentum goes on in the direction of the last merged change") {
  ExchangeRules rules;
  rules.round = false;
  rules.momentum = 0.5f;
  rules.outer = 2;
  Groups groups(2, rules);
  const std::vector<float> begin = groups.Row(0, 0);
  groups.Update(0, 0, 1);
  const float first = groups.Row(0, 0)[0] - begin[0];
  groups.exchange().Exchange(false);
  // v = 2 d, the step 2 d + 0.5 v.
  const float base = groups.Row(1, 0)[0];
  CHECK(base - begin[0] == doctest::Approx(3 * first));
  groups.Update(1, 0, 1);
  const float second = groups.Row(1, 0)[0] - base;
  groups.exchange().Exchange(false);
  CHECK(groups.Row(0, 0)[0] - base ==
        doctest::Approx(2 * second + 0.5f * (0.5f * 2 * first + 2 * second)));
}

}  // namespace
}  // namespace dslide::cells
