// The sums of gradients over a step against sums in long double, and in every order.
#include "server/model/gradient_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "common/base/random.h"
#include "tests/support/floats.h"

namespace dslide::gradient_sums_test {
namespace {

struct Addend {
  uint32_t row;
  float share;
  std::vector<float> gradient;  // [dim]
  float bias;
};

// Rows' sums by row, the bias last, as bits: equal bits, not equal numbers.
using Sums = std::map<uint32_t, std::vector<float>>;

Sums Take(const GradientSums& sums, size_t dim) {
  Sums taken;
  sums.ForEach([&](uint32_t row, const float* gradient, float bias) {
    CHECK_FALSE(taken.contains(row));
    taken[row].assign(gradient, gradient + dim);
    taken[row].push_back(bias);
  });
  return taken;
}

bool SameBits(const Sums& a, const Sums& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.first == y.first &&
           std::equal(x.second.begin(), x.second.end(), y.second.begin(), y.second.end(),
                      [](float p, float q) {
                        return std::bit_cast<uint32_t>(p) == std::bit_cast<uint32_t>(q);
                      });
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

void AddAll(const std::vector<Addend>& addends, GradientSums* sums) {
  for (const Addend& a : addends) sums->Add(a.row, a.share, a.gradient.data(), a.bias);
}

// Numbers of all magnitudes from 2^-40 to 2^3, of both signs.
float AnyNumber(Random* random) {
  const auto exponent = static_cast<int>(random->Below(44)) - 40;
  const double sign = random->Below(2) == 0 ? 1 : -1;
  return static_cast<float>(sign * std::ldexp(1 + random->Uniform(), exponent));
}

std::vector<Addend> RandomAddends(uint32_t rows, size_t dim, size_t count, Random* random) {
  std::vector<Addend> addends(count);
  for (Addend& a : addends) {
    a.row = static_cast<uint32_t>(random->Below(rows));
    a.share = static_cast<float>(0.01 + 0.5 * random->Uniform());
    for (size_t d = 0; d < dim; ++d) a.gradient.push_back(AnyNumber(random));
    a.bias = AnyNumber(random);
  }
  return addends;
}

void CheckAgainstLongDouble(uint32_t rows, size_t dim, size_t count, uint64_t seed) {
  CAPTURE(rows);
  CAPTURE(seed);
  Random random(seed);
  const std::vector<Addend> addends = RandomAddends(rows, dim, count, &random);
  std::map<uint32_t, std::vector<long double>> expected;
  std::map<uint32_t, int> times;
  for (const Addend& a : addends) {
    auto& sum = expected[a.row];
    sum.resize(dim + 1);
    times[a.row]++;
    for (size_t d = 0; d < dim; ++d) sum[d] += a.share * a.gradient[d];  // a float each
    sum[dim] += a.share * a.bias;
  }
  GradientSums sums(rows, dim);
  AddAll(addends, &sums);
  const Sums taken = Take(sums, dim);
  REQUIRE(taken.size() == expected.size());
  for (const auto& [row, sum] : taken) {
    for (size_t d = 0; d <= dim; ++d) {
      const long double exact = expected.at(row)[d];
      // A step of the grid an addend, and the rounding of the result to fp32.
      const long double allowed =
          std::ldexp(static_cast<long double>(times[row]), -52) + std::ldexp(std::abs(exact), -24);
      CHECK(std::abs(static_cast<long double>(sum[d]) - exact) <= allowed);
    }
  }
}

// Also with more rows than a block of memory has.
TEST_CASE("gradient sums are those of long double, within the grid and one rounding") {
  CheckAgainstLongDouble(1, 1, 10, 1);
  CheckAgainstLongDouble(7, 16, 300, 2);
  CheckAgainstLongDouble(255, 2, 3000, 4);
  CheckAgainstLongDouble(257, 2, 3000, 5);
  CheckAgainstLongDouble(2000, 5, 20000, 6);
}

TEST_CASE("gradient sums of floats from 2^-28 on have no error but the last rounding") {
  // 1 + 2^-24 is no float; the sum of 2^24 and more such parts shows what was lost on the way.
  GradientSums sums(1, 1);
  for (int i = 0; i < 1000; ++i) {
    const float x = 1.0f + 0x1p-23f, tiny = 0x1.000002p-28f;
    sums.Add(0, 1, &x, tiny);
  }
  const Sums taken = Take(sums, 1);
  CHECK(taken.at(0)[0] == static_cast<float>(1000 * (1.0 + 0x1p-23)));
  CHECK(taken.at(0)[1] == static_cast<float>(1000 * 0x1.000002p-28));
}

TEST_CASE("gradient sums are the same bit for bit in whatever order the addends come") {
  constexpr uint32_t kRows = 600;
  constexpr size_t kDim = 5;
  Random random(11);
  std::vector<Addend> addends = RandomAddends(kRows, kDim, 4000, &random);
  GradientSums sums(kRows, kDim);
  AddAll(addends, &sums);
  const Sums first = Take(sums, kDim);
  CHECK(first.size() > 2 * 256);
  for (int trial = 0; trial < 50; ++trial) {
    for (size_t i = addends.size(); i > 1; --i) std::swap(addends[i - 1], addends[random.Below(i)]);
    sums.Clear();
    AddAll(addends, &sums);
    REQUIRE(SameBits(Take(sums, kDim), first));
  }
  // Floats summed one after another would not be.
  const auto float_sum = [&] {
    return std::accumulate(addends.begin(), addends.end(), 0.0f,
                           [](float sum, const Addend& a) { return sum + a.bias; });
  };
  const float forward = float_sum();
  std::reverse(addends.begin(), addends.end());
  CHECK(float_sum() != forward);
}

TEST_CASE("cleared gradient sums begin anew in the same memory") {
  Random random(12);
  GradientSums used(1000, 4);
  CHECK(used.MemoryBytes() == 0);
  AddAll(RandomAddends(1000, 4, 5000, &random), &used);
  const uint64_t memory = used.MemoryBytes();
  CHECK(memory >= 990 * 5 * sizeof(int64_t));
  used.Clear();
  CHECK(Take(used, 4).empty());
  const std::vector<Addend> addends = RandomAddends(1000, 4, 700, &random);
  GradientSums fresh(1000, 4);
  AddAll(addends, &used);
  AddAll(addends, &fresh);
  CHECK(SameBits(Take(used, 4), Take(fresh, 4)));
  CHECK(used.MemoryBytes() == memory);
}

TEST_CASE(
    "a gradient that is no number or out of range makes all sums NaN until they are cleared") {
  constexpr float kGood[] = {1, 2};
  for (const float bad : {kNan, kInfinity, -kInfinity, 1024.0f, -1024.0f, 2048.0f, 1e30f}) {
    CAPTURE(bad);
    for (const bool in_bias : {false, true}) {
      GradientSums sums(10, 2);
      sums.Add(3, 1, kGood, 0.5f);
      const float gradient[] = {0, in_bias ? 0 : bad};
      sums.Add(7, 1, gradient, in_bias ? bad : 0);
      sums.Add(4, 1, kGood, 0.5f);
      const Sums poisoned = Take(sums, 2);
      CHECK(poisoned.size() == 3);
      for (const auto& [row, sum] : poisoned) {
        for (const float x : sum) CHECK(std::isnan(x));
      }
      sums.Clear();
      sums.Add(3, 1, kGood, 0.5f);
      CHECK(Take(sums, 2) == Sums{{3, {1, 2, 0.5f}}});
    }
  }
}

TEST_CASE("a share does not bring a gradient back into range") {
  for (const float bad : {1024.0f, -1024.0f, 1e30f, kInfinity, kNan}) {
    CAPTURE(bad);
    GradientSums sums(1, 1);
    sums.Add(0, 0x1p-20f, &bad, 0);
    CHECK(std::isnan(Take(sums, 1).at(0)[0]));
  }
}

TEST_CASE("a sum out of range makes all sums NaN, whatever is added then") {
  constexpr float kOne = 1, kLarge = 1000, kBack = -1000;
  for (const float sign : {1.0f, -1.0f}) {
    CAPTURE(sign);
    const float large = sign * kLarge, back = sign * kBack;
    for (const bool in_bias : {false, true}) {
      CAPTURE(in_bias);
      GradientSums sums(4, 1);
      const auto add = [&](float x) { sums.Add(2, 1, in_bias ? &kOne : &x, in_bias ? x : 1); };
      sums.Add(1, 1, &kOne, 0);
      add(large);
      add(large);
      const size_t at = in_bias ? 1 : 0;
      CHECK(Take(sums, 1).at(2)[at] == 2 * large);
      add(large);  // 3000 is beyond 2^11
      for (int n = 0; n < 3; ++n) {
        for (const auto& [row, sum] : Take(sums, 1)) {
          for (const float x : sum) CHECK(std::isnan(x));
        }
        add(back);
      }
      sums.Clear();
      add(large);
      CHECK(Take(sums, 1).at(2)[at] == large);
    }
  }
}

TEST_CASE("the largest gradients in range are summed without an error") {
  const float largest = std::nextafter(1024.0f, 0.0f);
  const float gradient[] = {largest, -largest, 0x1p-28f};
  GradientSums sums(1, 3);
  sums.Add(0, 0.125f, gradient, 0);
  CHECK(Take(sums, 3).at(0) == std::vector<float>{largest / 8, -largest / 8, 0x1p-31f, 0});
  sums.Clear();
  sums.Add(0, 1, gradient, largest);
  CHECK(Take(sums, 3).at(0) == std::vector<float>{largest, -largest, 0x1p-28f, largest});
}

TEST_CASE("no order of a step's largest gradients leaves the range: their shares are 1 in all") {
  const float largest = std::nextafter(1024.0f, 0.0f);
  Random random(21);
  for (int trial = 0; trial < 200; ++trial) {
    // Batches of samples of one step: shares as the executors compute them.
    const uint64_t batches = 1 + random.Below(50);
    std::vector<uint64_t> samples;
    uint64_t all = 0;
    for (uint64_t n = 0; n < batches; ++n) all += samples.emplace_back(1 + random.Below(300));
    const float gradient[] = {largest, -largest, random.Below(2) == 0 ? largest : -largest};
    GradientSums sums(1, 3);
    for (const uint64_t n : samples) {
      sums.Add(0, static_cast<float>(n) / static_cast<float>(all), gradient, -largest);
    }
    const std::vector<float> sum = Take(sums, 3).at(0);
    CHECK(sum[0] == doctest::Approx(largest).epsilon(1e-5));
    CHECK(sum[1] == -sum[0]);
    CHECK(std::abs(sum[2]) == sum[0]);
    CHECK(sum[3] == -sum[0]);
  }
}

TEST_CASE("gradients below 2^-52 count as 0, however many there are") {
  const float gradient[] = {0x1.fffffep-53f, -0x1.fffffep-53f, 0x1p-52f, 0x1p-149f};
  GradientSums sums(1, 4);
  for (int i = 0; i < 1000; ++i) sums.Add(0, 1, gradient, -0x1p-53f);
  CHECK(Take(sums, 4).at(0) == std::vector<float>{0, 0, 1000 * 0x1p-52f, 0, 0});
}

}  // namespace
}  // namespace dslide::gradient_sums_test
