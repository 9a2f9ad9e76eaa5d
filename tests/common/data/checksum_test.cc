#include "common/data/checksum.h"

#include <doctest/doctest.h>

#include <set>
#include <utility>

#include "tests/support/numbered_samples.h"

namespace dslide::checksum_test {
namespace {

struct LabelledSample {
  std::vector<uint32_t> labels;
  std::vector<uint32_t> features;
  std::vector<float> values;
};

Dataset Of(const std::vector<LabelledSample>& samples) {
  Dataset data(10, 10);
  for (const LabelledSample& s : samples) data.Add({s.labels, s.features, s.values});
  return data;
}

TEST_CASE("every part of every sample counts, and where samples end") {
  const std::vector<LabelledSample> samples = {{{1}, {2, 3}, {1.0f, 0.5f}}, {{4, 5}, {6}, {2.0f}}};
  std::vector<std::vector<LabelledSample>> others(7, samples);
  others[0][0].labels[0] = 0;
  others[1][0].features[1] = 4;
  others[2][1].values[0] = 2.0000002f;
  std::swap(others[3][0], others[3][1]);
  others[4].push_back({});
  others[5][0].labels = {1, 4};  // the same ids in the same order, cut elsewhere
  others[5][1].labels = {5};
  others[6][0] = {{1}, {2}, {1.0f}};
  others[6][1] = {{4, 5}, {3, 6}, {0.5f, 2.0f}};
  std::set<uint64_t> sums = {Checksum(Of(samples))};
  for (const auto& other : others) CHECK(sums.insert(Checksum(Of(other))).second);
  CHECK(Checksum(Of(samples)) == Checksum(Of(samples)));
}

TEST_CASE("the weights of samples count, unless all are 1") {
  const auto sum = [](const std::vector<float>& weights) {
    Dataset data(10, 10);
    const std::vector<uint32_t> ids = {1, 2};
    const std::vector<float> values = {1.0f, 0.5f};
    for (const float weight : weights) data.Add({ids, ids, values, weight});
    return Checksum(data);
  };
  Dataset unweighted(10, 10);
  const std::vector<uint32_t> ids = {1, 2};
  const std::vector<float> values = {1.0f, 0.5f};
  for (int i = 0; i < 3; ++i) unweighted.Add({ids, ids, values});
  CHECK_FALSE(unweighted.has_weights());
  const std::set<uint64_t> sums = {Checksum(unweighted), sum({2, 1, 1}), sum({1, 2, 1}),
                                   sum({1, 1, 2}), sum({1, 1, 0})};
  CHECK(sums.size() == 5);
  CHECK(sum({1, 1, 1}) == Checksum(unweighted));
}

// Schedulers and workers of different builds compare it.
TEST_CASE("the checksum is part of the protocol") {
  CHECK(Checksum(Of({})) == 0);
  CHECK(Checksum(NumberedSamples(50, 7)) == 0x37e474c91db137bf);
}

}  // namespace
}  // namespace dslide::checksum_test
