#include "scheduler/pass/loss_outliers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace dslide::loss_outliers_test {
namespace {

constexpr uint32_t kLabels = 2500;  // 0.05 log(labels) = 0.39
constexpr int kFound = static_cast<int>(2 * LossOutliers::kWindow + LossOutliers::kLeastKnown);

using Found = std::map<std::string, std::vector<LossOutliers::Outlier>>;

// Batches of contributors in turn whose losses have these means, with noise of 0.3, above a loss
// that falls from `from` by half every 200 batches of each.
Found After(const std::map<std::string, double>& means, int rounds, double from = 0) {
  LossOutliers outliers(kLabels);
  Random random(1);
  Found found;
  for (int round = 0; round < rounds; ++round) {
    const double level = from * std::exp2(-round / 200.0);
    for (const auto& [name, mean] : means) {
      const auto one = outliers.Add(name, level + mean + 0.3 * random.Normal());
      if (one) found[name].push_back(*one);
    }
  }
  return found;
}

TEST_CASE("loss outliers: of three the one whose loss is higher is named") {
  const Found found = After({{"a", 2.0}, {"b", 2.1}, {"liar", 3.0}}, kFound);
  REQUIRE(found.size() == 1);
  REQUIRE(found.at("liar").size() == 1);
  CHECK(found.at("liar")[0].loss == doctest::Approx(3.0).epsilon(0.1));
  CHECK(found.at("liar")[0].others == doctest::Approx(2.1).epsilon(0.1));
  CHECK(After({{"a", 2.0}, {"b", 2.1}, {"liar", 3.0}}, 2 * kFound).at("liar").size() == 2);
}

TEST_CASE("loss outliers: noise, small differences and a loss that falls name nobody") {
  CHECK(After({{"a", 2.0}, {"b", 2.1}, {"c", 2.3}}, 5000).empty());
  CHECK(After({{"a", 0.0}, {"b", 0.0}, {"c", 0.0}}, 5000, 7.8).empty());
}

TEST_CASE("loss outliers: who was alone while the loss fell is compared with the present") {
  LossOutliers outliers(kLabels);
  for (int i = 0; i < 100; ++i) CHECK_FALSE(outliers.Add("first", 7.8 - 0.05 * i));
  for (int i = 0; i < 1000; ++i) {
    const std::string name = i % 3 == 0 ? "first" : i % 3 == 1 ? "b" : "c";
    CHECK_FALSE(outliers.Add(name, 2.8 - 0.001 * i));
  }
}

TEST_CASE("loss outliers: of two nobody can tell") {
  CHECK(After({{"a", 2.0}, {"liar", 8.0}}, 1000).empty());
}

TEST_CASE("loss outliers: a low loss of one makes no outliers of the others") {
  CHECK(After({{"a", 2.0}, {"b", 2.0}, {"liar", 0.0}}, 1000).empty());
}

TEST_CASE("loss outliers: an alarm asks before windows are whole") {
  LossOutliers outliers(kLabels);
  for (int i = 0; i < 40; ++i) {
    for (const char* name : {"a", "b"}) CHECK_FALSE(outliers.Add(name, 2.0 + 0.01 * (i % 3)));
  }
  for (uint64_t i = 0; i < LossOutliers::kLeastKnown; ++i) {
    CHECK(outliers.Suspects().empty());
    CHECK_FALSE(outliers.Add("liar", 6.0 + 0.1 * static_cast<double>(i % 2)));
  }
  const auto suspects = outliers.Suspects();
  REQUIRE(suspects.size() == 1);
  CHECK(suspects.at("liar").loss == doctest::Approx(6.0).epsilon(0.02));
}

TEST_CASE("loss outliers: one of ten, and two of ten") {
  std::map<std::string, double> means;
  for (char c = 'a'; c <= 'j'; ++c) means[std::string(1, c)] = 2.0;
  means["d"] = 7.0;
  CHECK(After(means, 100).size() == 1);
  means["g"] = 3.0;
  CHECK(After(means, 100).size() == 2);
}

TEST_CASE("loss outliers: five of two hundred, while the loss falls") {
  std::map<std::string, double> means;
  for (int i = 0; i < 200; ++i) means["key-" + std::to_string(i)] = i % 40 == 7 ? 4.0 : 2.0;
  const Found found = After(means, 60, 5.0);
  CHECK(found.size() == 5);
  CHECK(found.contains("key-47"));
}

TEST_CASE("loss outliers: a new name for each batch holds nobody up and takes no room") {
  LossOutliers outliers(kLabels);
  bool found = false;
  for (int i = 0; i < 20'000 && !found; ++i) {
    (void)outliers.Add("new-" + std::to_string(i), 9.0);
    (void)outliers.Add("a", 2.0);
    (void)outliers.Add("b", 2.0);
    found = outliers.Add("liar", 4.0).has_value();
  }
  CHECK(found);
}

}  // namespace
}  // namespace dslide::loss_outliers_test
