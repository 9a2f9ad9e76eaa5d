#include "common/run/hold_out.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace dslide::hold_out_test {
namespace {

struct Sample {
  std::vector<uint32_t> labels;
  std::vector<uint32_t> features;
};

Dataset DataOf(const std::vector<Sample>& samples) {
  Dataset data(2000, 1000);
  for (const Sample& sample : samples) {
    const std::vector<float> values(sample.features.size(), 1.0f);
    data.Add({sample.labels, sample.features, values});
  }
  return data;
}

// Samples whose features tell them apart, with one of `labels` labels each, sorted by label.
std::vector<Sample> Sorted(uint32_t count, uint32_t labels) {
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < count; ++i) {
    samples.push_back({{i * labels / count}, {i % 1000, 1000 + i / 1000}});
  }
  return samples;
}

std::vector<uint32_t> Chosen(const Dataset& data, uint64_t seed, uint32_t wanted,
                             bool exclude_own_features = false) {
  Config config;
  config.common.seed = seed;
  config.train.heldout = wanted;
  config.train.exclude_own_features = exclude_own_features;
  return ChooseHeldOut(data, config).numbers;
}

TEST_CASE("held out: two percent, within bounds") {
  CHECK(DerivedHeldOut(100'000, 80'000) == 2000);
  CHECK(DerivedHeldOut(10'000'000, 8'000'000) == 5000);
  CHECK(DerivedHeldOut(20'000, 20'000) == 500);
  CHECK(DerivedHeldOut(20'000, 8000) == 400);
  CHECK(DerivedHeldOut(5, 5) == 0);
}

TEST_CASE("held out: of a file that is sorted by label samples of all labels") {
  const Dataset data = DataOf(Sorted(5000, 20));
  const auto chosen = Chosen(data, 1, 500);
  REQUIRE(chosen.size() == 500);
  CHECK(std::ranges::is_sorted(chosen));
  std::map<uint32_t, int> by_label;
  for (const uint32_t number : chosen) by_label[data[number].labels[0]]++;
  REQUIRE(by_label.size() == 20);
  for (const auto& [label, count] : by_label) {
    CHECK(count > 5);
    CHECK(count < 60);
  }
  CHECK(chosen == Chosen(data, 1, 500));
  CHECK(chosen != Chosen(data, 2, 500));
}

TEST_CASE("held out: the order of the file does not matter") {
  std::vector<Sample> samples = Sorted(1000, 10);
  const auto features = [](const Dataset& data, const std::vector<uint32_t>& numbers) {
    std::set<std::vector<uint32_t>> chosen;
    for (const uint32_t number : numbers) {
      chosen.insert({data[number].features.begin(), data[number].features.end()});
    }
    return chosen;
  };
  const Dataset before = DataOf(samples);
  const auto chosen = features(before, Chosen(before, 1, 100));
  std::ranges::reverse(samples);
  const Dataset after = DataOf(samples);
  CHECK(features(after, Chosen(after, 1, 100)) == chosen);
}

TEST_CASE("held out: samples with equal features stay together") {
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < 900; ++i) samples.push_back({{i % 7}, {i / 3}});
  const auto chosen = Chosen(DataOf(samples), 1, 91);
  CHECK(chosen.size() == 90);
  std::map<uint32_t, int> by_group;
  for (const uint32_t number : chosen) by_group[number / 3]++;
  for (const auto& [group, count] : by_group) CHECK(count == 3);
}

TEST_CASE("held out: the divisions of a user's things into features and labels stay together") {
  // 100 users with eight things each, one of which is the label; seven divisions of each user.
  std::vector<Sample> samples;
  for (uint32_t user = 0; user < 100; ++user) {
    for (uint32_t label = 0; label < 7; ++label) {
      std::vector<uint32_t> features;
      for (uint32_t i = 0; i < 8; ++i) {
        if (i != label) features.push_back(user + i * i);
      }
      samples.push_back({{user + label * label}, features});
    }
  }
  const Dataset data = DataOf(samples);
  const auto users = [](const std::vector<uint32_t>& chosen) {
    std::map<uint32_t, int> count;
    for (const uint32_t number : chosen) count[number / 7]++;
    return count;
  };
  const auto chosen = users(Chosen(data, 1, 70, true));
  CHECK(chosen.size() == 10);
  for (const auto& [user, count] : chosen) CHECK(count == 7);
  CHECK(users(Chosen(data, 1, 70)).size() > 30);
}

TEST_CASE("held out: each label keeps a sample, and samples without labels are trained") {
  // All samples of labels 0 to 99 are one; those of 100 have no other label.
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < 100; ++i) samples.push_back({{i}, {i}});
  for (uint32_t i = 0; i < 3; ++i) samples.push_back({{100}, {100 + i}});
  for (uint32_t i = 0; i < 50; ++i) samples.push_back({{}, {200 + i}});
  const auto chosen = Chosen(DataOf(samples), 1, 50);
  CHECK(chosen.size() == 2);
  for (const uint32_t number : chosen) CHECK((number >= 100 && number < 103));
}

// Calls HoldOut() with a configuration. Returns the number of samples, train.heldout and the note,
// or the error.
std::string Held(const Dataset& data, const std::string& keys) {
  Config config = *ParseConfig("[train]\n" + keys, "test");
  std::string note;
  const auto held_out = HoldOut(data, &config, &note);
  if (!held_out.ok()) return held_out.error().message;
  const std::optional<uint32_t> wanted = config.train.heldout;
  return fmt::format("{} of {} {}", held_out->size(), wanted ? std::to_string(*wanted) : "auto",
                     note);
}

TEST_CASE("held out: by the configuration, with a line where fewer can be spared") {
  const Dataset many = DataOf(Sorted(6000, 20));
  CHECK(Held(many, "heldout = 0\n") == "0 of 0 ");
  CHECK(Held(many, "") == "300 of 300 300 samples are held out, 5700 trained");
  CHECK(Held(many, "heldout = auto\n") == "300 of 300 300 samples are held out, 5700 trained");
  CHECK(Held(many, "heldout = 30\n") == "30 of 30 30 samples are held out, 5970 trained");
  CHECK(Held(DataOf(Sorted(300, 3)), "heldout = auto\n") ==
        "0 of auto no samples are held out: the 5 % that can be spared have 15 different samples, "
        "fewer than 250; "
        "train.heldout may ask for more");
  std::vector<Sample> single = Sorted(5100, 20);  // and 900 labels with a sample each
  for (uint32_t i = 0; i < 900; ++i) single.push_back({{100 + i}, {1999}});
  CHECK(Held(DataOf(single), "") == "255 of 255 255 samples are held out, 5745 trained");
  CHECK(Held(many, "heldout = auto\ndev = dev.txt\n") == "0 of auto ");
  std::vector<Sample> repeated;  // 20 inputs, 200 samples of each
  for (uint32_t i = 0; i < 4000; ++i) repeated.push_back({{i % 7}, {i % 20}});
  CHECK(Held(DataOf(repeated), "heldout = auto\n") ==
        "0 of auto no samples are held out: the 5 % that can be spared have 1 different sample, "
        "fewer than 250; "
        "train.heldout may ask for more");
  CHECK(Held(DataOf(repeated), "heldout = 400\n") ==
        "400 of 400 400 samples are held out, 3600 trained");
  CHECK(Held(many, "heldout = 5\ndev = dev.txt\n") ==
        "train.heldout = 5: the held-out samples are those of train.dev; leave one of the two out");
  std::vector<Sample> rare = Sorted(2000, 2000);  // a sample each
  for (Sample& sample : rare) sample.labels[0] %= 1000;
  for (uint32_t i = 0; i < 1000; ++i) rare.pop_back();
  const Dataset none = DataOf(rare);
  CHECK(Held(none, "heldout = auto\n") ==
        "0 of auto no samples are held out: the 5 % that can be spared have 0 different samples, "
        "fewer than 250; "
        "train.heldout may ask for more");
  CHECK(
      Held(none, "heldout = 5\n") ==
      "train.heldout = 5: no sample can be spared, as each label keeps one; leave it out, or name "
      "a file of such samples by train.dev");
  rare.push_back({{0}, {1999}});
  CHECK(
      Held(DataOf(rare), "heldout = 5\n") ==
      "1 of 5 1 sample is held out, 1000 trained; more cannot be spared, as each label keeps one");
}

TEST_CASE("held out: which samples is part of the protocol") {
  // A worker that has the file has to leave out the same ones, whatever its version.
  CHECK(Chosen(DataOf(Sorted(40, 2)), 1, 5) == std::vector<uint32_t>{0, 20, 23, 31, 38});
}

}  // namespace
}  // namespace dslide::hold_out_test
