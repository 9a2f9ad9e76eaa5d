#include "common/data/measures/label_counts.h"

#include <doctest/doctest.h>

#include <vector>

namespace dslide::label_counts_test {
namespace {

using Counts = std::vector<LabelCount>;

void CheckExtent(const FrequencyBands& bands, Band band, const FrequencyBands::Extent& expected) {
  const FrequencyBands::Extent& extent = bands.ExtentOf(band);
  CAPTURE(static_cast<int>(band));
  CHECK(extent.labels == expected.labels);
  CHECK(extent.occurrences == expected.occurrences);
  CHECK(extent.fewest == expected.fewest);
  CHECK(extent.most == expected.most);
}

TEST_CASE("label counts: without some samples") {
  Dataset data(1, 9);
  for (const std::vector<uint32_t>& labels : {std::vector<uint32_t>{1, 5}, {5}, {2, 5}, {1}}) {
    data.Add({labels, {}, {}});
  }
  CHECK(CountLabels(data) == Counts{{1, 2}, {2, 1}, {5, 3}});
  const std::vector<uint32_t> some = {0, 2}, all = {0, 1, 2, 3};
  CHECK(CountLabels(data, some) == Counts{{1, 1}, {5, 1}});
  CHECK(CountLabels(data, all).empty());
}

TEST_CASE("label counts: samples that have a label, ascending") {
  Dataset train(1, 4294967295);
  CHECK(CountLabels(train).empty());
  for (const std::vector<uint32_t>& labels :
       {std::vector<uint32_t>{5, 4294967294}, {}, {0, 5}, {5}}) {
    train.Add({labels, {}, {}});
  }
  CHECK(CountLabels(train) == Counts{{0, 1}, {5, 3}, {4294967294, 1}});
}

TEST_CASE("frequency bands: a third of the occurrences each") {
  // 9 + 5 + 4 + 3 x 3: thirds of [0, 27) end at 9 and 18.
  const FrequencyBands bands({{1, 3}, {2, 5}, {3, 3}, {6, 4}, {7, 9}, {9, 3}});
  CHECK(bands.Of(7) == Band::kHead);
  CHECK(bands.Of(2) == Band::kMiddle);
  CHECK(bands.Of(6) == Band::kMiddle);
  for (const uint32_t rare : {1u, 3u, 9u}) CHECK(bands.Of(rare) == Band::kTail);
  CheckExtent(bands, Band::kHead, {1, 9, 9, 9});
  CheckExtent(bands, Band::kMiddle, {2, 9, 4, 5});
  CheckExtent(bands, Band::kTail, {3, 9, 3, 3});
}

TEST_CASE("frequency bands: a label that does not occur is in the tail, and of no extent") {
  const FrequencyBands bands({{1, 9}, {2, 1}});
  for (const uint32_t absent : {0u, 3u, 4294967295u}) CHECK(bands.Of(absent) == Band::kTail);
  const FrequencyBands empty(Counts{});
  CHECK(empty.known());
  CHECK(empty.Of(0) == Band::kTail);
  for (const Band band : {Band::kHead, Band::kMiddle, Band::kTail}) {
    CheckExtent(empty, band, {0, 0, 0, 0});
  }
  CHECK_FALSE(FrequencyBands().known());
}

TEST_CASE("frequency bands: labels of one frequency stay together") {
  // All alike: the middle of their occurrences is in the middle.
  const FrequencyBands alike({{0, 2}, {1, 2}, {2, 2}, {3, 2}});
  CheckExtent(alike, Band::kMiddle, {4, 8, 2, 2});
  CheckExtent(alike, Band::kHead, {0, 0, 0, 0});
  CheckExtent(alike, Band::kTail, {0, 0, 0, 0});
  CHECK(alike.Of(3) == Band::kMiddle);
  // One label has nearly all: [0, 90) of 94 with the middle at 45 is no head.
  const FrequencyBands steep({{0, 90}, {1, 4}});
  CHECK(steep.Of(0) == Band::kMiddle);
  CHECK(steep.Of(1) == Band::kTail);
}

}  // namespace
}  // namespace dslide::label_counts_test
