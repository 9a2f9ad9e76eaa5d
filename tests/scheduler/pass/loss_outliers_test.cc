#include "scheduler/pass/loss_outliers.h"

#include <doctest/doctest.h>

#include "common/base/random.h"

namespace dslide::loss_outliers_test {
namespace {

using Outliers = std::vector<LossOutliers::Outlier>;

constexpr uint32_t kLabels = 2500;  // 0.05 log(labels) = 0.39

// Batches of contributors in turn whose losses have these means, with noise of 0.3.
Outliers After(const std::map<std::string, double>& means, int rounds) {
  LossOutliers outliers(kLabels);
  Random random(1);
  Outliers all;
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [name, mean] : means) {
      for (auto& one : outliers.Add(name, mean + 0.3 * random.Normal())) all.push_back(one);
    }
  }
  return all;
}

TEST_CASE("loss outliers: of three the one whose loss is higher is named") {
  const Outliers found = After({{"a", 2.0}, {"b", 2.1}, {"liar", 3.0}}, 20);
  REQUIRE(found.size() == 1);
  CHECK(found[0].contributor == "liar");
  CHECK(found[0].loss == doctest::Approx(3.0).epsilon(0.1));
  CHECK(found[0].others == doctest::Approx(2.1).epsilon(0.1));
  CHECK(After({{"a", 2.0}, {"b", 2.1}, {"liar", 3.0}}, 40).size() == 2);  // in each window
}

TEST_CASE("loss outliers: noise and small differences name nobody") {
  CHECK(After({{"a", 2.0}, {"b", 2.1}, {"c", 2.3}}, 2000).empty());
}

TEST_CASE("loss outliers: of two nobody can tell") {
  CHECK(After({{"a", 2.0}, {"liar", 8.0}}, 1000).empty());
}

TEST_CASE("loss outliers: who reports a low loss makes no outlier of the others") {
  CHECK(After({{"a", 2.0}, {"b", 2.0}, {"liar", 0.0}}, 1000).empty());
}

TEST_CASE("loss outliers: contributors with few batches in a window are not judged") {
  LossOutliers outliers(kLabels);
  Outliers found;
  for (uint64_t i = 0; i < 50 * LossOutliers::kLeastWindow; ++i) {
    const bool is_late = i % LossOutliers::kLeastWindow < LossOutliers::kLeastJudged - 1;
    const std::string name = is_late ? "liar" : i % 2 == 0 ? "a" : "b";
    for (auto& one : outliers.Add(name, is_late ? 9.0 : 2.0)) found.push_back(one);
  }
  CHECK(found.empty());
}

TEST_CASE("loss outliers: one of ten, and two of ten") {
  std::map<std::string, double> means;
  for (char c = 'a'; c <= 'j'; ++c) means[std::string(1, c)] = 2.0;
  means["d"] = 7.0;
  CHECK(After(means, 20).size() == 1);
  means["g"] = 3.0;
  CHECK(After(means, 20).size() == 2);
}

}  // namespace
}  // namespace dslide::loss_outliers_test
