#include "common/data/measures/sample_lengths.h"

#include <doctest/doctest.h>

#include <array>

namespace dslide::sample_lengths_test {
namespace {

TEST_CASE("sample lengths: the least, the median and the greatest, without empty samples") {
  Dataset data(4, 2);
  const std::array<uint32_t, 2> ids = {0, 3};
  const auto add = [&](float a, float b) {
    const std::array<float, 2> values = {a, b};
    data.Add({{}, ids, values});
  };
  CHECK(SampleLengths(data).empty());
  add(30, -40);  // 50
  add(0, 0);
  data.Add({});
  add(0.3f, 0.4f);
  add(0, 12);
  const LengthSpread odd = SampleLengths(data).Spread();
  CHECK(odd.least == 0.5f);
  CHECK(odd.median == 12);
  CHECK(odd.most == 50);
  add(-6, 8);
  CHECK(SampleLengths(data).Spread().median == 10);  // the lower one of 10 and 12
}

TEST_CASE("sample lengths: squares beyond the range of a float, and below it") {
  SampleLengths lengths;
  const std::array<float, 2> large = {3e30f, 4e30f}, small = {3e-30f, 4e-30f};
  lengths.Add(large);
  lengths.Add(small);
  CHECK(lengths.Spread().most == doctest::Approx(5e30));
  CHECK(lengths.Spread().least == doctest::Approx(5e-30));
}

}  // namespace
}  // namespace dslide::sample_lengths_test
