#include "common/math/exact_sums.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace dslide::exact_sums_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A float of either sign whose exponent is anywhere in [low, high).
float RandomFloat(Random* random, int low, int high) {
  const int exponent = low + static_cast<int>(random->Below(static_cast<uint64_t>(high - low)));
  const auto x = static_cast<float>(std::ldexp(1.0 + random->Uniform(), exponent));
  return random->Below(2) == 0 ? x : -x;
}

TEST_CASE("fixed-point sums: terms are rounded to the grid, and are 0 afterwards") {
  Random random(1);
  std::vector<float> terms(1003);
  std::vector<int64_t> sums(terms.size()), expected(terms.size());
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < terms.size(); ++i) {
      terms[i] = i % 7 == 0 ? 0.0f : RandomFloat(&random, -60, 13);
      expected[i] += std::llrint(std::ldexp(double{terms[i]}, 38));  // ties to even
    }
    REQUIRE(MoveToFixed(terms.size(), terms.data(), sums.data()));
    CHECK(terms == std::vector<float>(terms.size()));
  }
  CHECK(sums == expected);
  CHECK(FromFixed(-3 * (int64_t{1} << 37)) == -1.5f);
}

TEST_CASE("fixed-point sums: what leaves the range is found, wherever it is") {
  for (const float term : {0x1p13f, -0x1.000002p13f, 0x1p20f, 1e38f, kInfinity, -kInfinity, kNan}) {
    for (size_t at = 0; at < 9; ++at) {
      std::vector<float> terms(9, 0.5f);
      terms[at] = term;
      std::vector<int64_t> sums(9);
      CHECK_FALSE(MoveToFixed(9, terms.data(), sums.data()));
    }
  }
  constexpr int64_t kMost = kFixedSumLimit - 1;
  for (size_t at = 0; at < 5; ++at) {
    std::vector<int64_t> sums(5), parts(5, 1);
    for (const int64_t sum : {kMost - 1, -kFixedSumLimit}) {
      sums[at] = sum;
      CHECK(AddFixed(5, parts.data(), sums.data()));
    }
    sums[at] = kMost;
    CHECK_FALSE(AddFixed(5, parts.data(), sums.data()));
    sums[at] = -kFixedSumLimit;
    parts[at] = -1;
    CHECK_FALSE(AddFixed(5, parts.data(), sums.data()));
    sums[at] = kMost;
    std::vector<float> terms(5, 1.0f);
    CHECK_FALSE(MoveToFixed(5, terms.data(), sums.data()));
  }
}

struct Term {
  float max;
  float sum;
};

ExpSum SumOf(const std::vector<Term>& terms) {
  ExpSum sum;
  for (const Term& term : terms) sum.Add(term.max, term.sum);
  return sum;
}

std::vector<Term> RandomTerms(Random* random, size_t count, double centre, double width) {
  std::vector<Term> terms(count);
  for (Term& term : terms) {
    term.max = static_cast<float>(centre + width * (random->Uniform() - 0.5));
    term.sum = static_cast<float>(1 + 300 * random->Uniform());
  }
  return terms;
}

TEST_CASE("sums of exponentials: the logarithm is that of a sum in long double") {
  Random random(2);
  for (const double centre : {0.0, -3.5, 50.0, -700.0, 9000.0, -200000.0}) {
    for (const double width : {0.0, 1.0, 20.0, 60.0, 500.0}) {
      CAPTURE(centre);
      CAPTURE(width);
      const std::vector<Term> terms = RandomTerms(&random, 200, centre, width);
      const float top = std::ranges::max(terms, {}, &Term::max).max;
      long double sum = 0;
      for (const Term& term : terms) {
        sum += term.sum * std::exp(static_cast<long double>(term.max) - top);
      }
      const double expected = static_cast<double>(top + std::log(sum));
      CHECK(double{SumOf(terms).Log()} == doctest::Approx(expected).epsilon(1e-7));
    }
  }
}

TEST_CASE("sums of exponentials: neither the order nor the groups of the terms matter") {
  Random random(3);
  for (const double width : {2.0, 40.0, 100.0}) {
    std::vector<Term> terms = RandomTerms(&random, 300, 5, width);
    const ExpSum expected = SumOf(terms);
    for (int repeat = 0; repeat < 50; ++repeat) {
      for (size_t i = terms.size(); i > 1; --i) std::swap(terms[i - 1], terms[random.Below(i)]);
      std::vector<ExpSum> groups(1 + random.Below(8));
      for (const Term& term : terms) {
        groups[random.Below(groups.size())].Add(term.max, term.sum);
      }
      ExpSum sum;
      for (const ExpSum& group : groups) sum.Add(group);
      CHECK(sum == expected);
    }
  }
}

TEST_CASE("sums of exponentials: nothing, and what is not finite") {
  ExpSum sum;
  CHECK(sum.Log() == -kInfinity);
  sum.Add(-kInfinity, 0);
  sum.Add(ExpSum());
  CHECK(sum == ExpSum());
  sum.Add(0, 1);
  CHECK(sum.Log() == 0);
  for (const Term& bad : {Term{kNan, 1}, {kInfinity, 1}, {0x1p20f, 1}, {0, kNan}, {0, kInfinity}}) {
    ExpSum spoilt = sum;
    spoilt.Add(bad.max, bad.sum);
    CHECK(std::isnan(spoilt.Log()));
    ExpSum other = sum;
    other.Add(spoilt);
    other.Add(1, 1);
    CHECK(std::isnan(other.Log()));
  }
}

}  // namespace
}  // namespace dslide::exact_sums_test
