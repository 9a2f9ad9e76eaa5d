#include "tools/dslide/data/statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

namespace dslide::statistics_test {
namespace {

using Names = std::vector<std::string>;
using Ids = std::vector<uint32_t>;

TEST_CASE("statistics: weights") {
  Statistics s;
  for (const float weight : {1.0f, 0.0f, 3.5f, 0.5f}) s.AddWeight(weight);
  CHECK(s.weights().others == 3);
  CHECK(s.weights().zeros == 1);
  CHECK(s.weights().sum == 5);
  CHECK(s.weights().least == 0);
  CHECK(s.weights().most == 3.5f);
}

TEST_CASE("statistics: counts of a few samples") {
  Statistics s;
  s.Add(7, 3, Names{"a", "b"});
  s.Add(8, 5, Names{});
  s.Add(7, 3, Names{"a"});
  s.Add(0, 0, Names{"c"});
  s.Add(0, 0, Names{"a"});
  CHECK(s.samples() == 5);
  CHECK(s.without_labels() == 1);
  CHECK(s.without_features() == 2);
  CHECK(s.Duplicates() == 1);  // samples without features are none
  CHECK(s.labels() == 3);
  CHECK(s.label_entries() == 5);
  CHECK(s.lengths().mean() == doctest::Approx(2.2));
  CHECK(s.lengths().median() == 3);
  CHECK(s.lengths().most() == 5);
  CHECK(s.SamplesALabel().median() == 1);
  const auto most = s.MostFrequent(2);
  REQUIRE(most.size() == 2);
  CHECK(most[0].name == "a");
  CHECK(most[0].samples == 3);
  CHECK(most[1].name == "b");
  const auto tail = s.Tail();
  CHECK(tail[0].labels == 2);
  CHECK(tail[0].entries == 2);
  CHECK(tail[1].labels == 1);
  CHECK(tail[1].entries == 3);
  CHECK_FALSE(s.NeighboursOf().sorted());  // too few to say
}

TEST_CASE("statistics: the median of an even number is between the two in the middle") {
  Histogram histogram;
  for (const uint64_t value : {1, 2, 5, 100}) histogram.Add(value);
  CHECK(histogram.median() == 3.5);
  CHECK(Histogram().median() == 0);
  CHECK(Histogram().mean() == 0);
  CHECK(Histogram().most() == 0);
}

TEST_CASE("statistics: bands of the tail, to their ends") {
  Statistics s;
  uint32_t label = 0;
  for (const uint32_t samples : {1, 2, 4, 5, 19, 20, 99, 100, 101}) {
    for (uint32_t i = 0; i < samples; ++i) s.Add(i, 1, Ids{label});
    ++label;
  }
  const auto tail = s.Tail();
  for (const auto& [band, labels, entries] :
       {std::tuple(0, 1, 1), std::tuple(1, 2, 6), std::tuple(2, 2, 24), std::tuple(3, 2, 119),
        std::tuple(4, 2, 201)}) {
    CHECK(tail[static_cast<size_t>(band)].labels == static_cast<uint64_t>(labels));
    CHECK(tail[static_cast<size_t>(band)].entries == static_cast<uint64_t>(entries));
  }
}

TEST_CASE("statistics: files sorted by label are found, files in random order are not") {
  for (const uint32_t labels : {2u, 10u, 1000u}) {
    CAPTURE(labels);
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < 10'000; ++i) order.push_back(i * labels / 10'000);
    Statistics sorted;
    for (const uint32_t label : order) sorted.Add(label, 1, Ids{label});
    CHECK(sorted.NeighboursOf().sorted());
    Random random(5);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    Statistics shuffled;
    for (const uint32_t label : order) shuffled.Add(label, 1, Ids{label, 5000 + label % 3});
    CHECK_FALSE(shuffled.NeighboursOf().sorted());
  }
  // One label that all have says nothing of the order.
  Statistics one;
  for (uint32_t i = 0; i < 1000; ++i) one.Add(i, 1, Ids{0});
  CHECK_FALSE(one.NeighboursOf().sorted());
}

}  // namespace
}  // namespace dslide::statistics_test
