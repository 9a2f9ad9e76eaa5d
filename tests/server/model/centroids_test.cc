#include "server/model/centroids.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "common/base/random.h"

namespace dslide::centroids_test {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

Vector Unit(Vector x) {
  const double norm = std::sqrt(Dot(x, x));
  for (double& v : x) v /= norm;
  return x;
}

Vector Drawn(Random* random) {
  Vector x(6);
  for (double& v : x) v = random->Uniform();
  return x;
}

TEST_CASE("the logit of a sample without its own part in the centroid") {
  Random random(7);
  for (uint32_t n = 2; n <= 12; ++n) {
    CAPTURE(n);
    Vector others(6, 0.0);  // the sum of n - 1 unit vectors
    for (uint32_t j = 1; j < n; ++j) {
      const Vector other = Unit(Drawn(&random));
      for (size_t k = 0; k < others.size(); ++k) others[k] += other[k];
    }
    const Vector h = Drawn(&random);
    const double norm = std::sqrt(Dot(h, h));
    Vector sum = Unit(h);
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += others[k];
    const double logit = kCentroidLength * Dot(Unit(sum), h);
    const double expected = kCentroidLength * Dot(Unit(others), h);
    const auto s = static_cast<float>(std::sqrt(Dot(sum, sum)));
    CHECK(LeaveOneOut(static_cast<float>(logit), static_cast<float>(norm), n, s) ==
          doctest::Approx(expected).epsilon(1e-3));
  }
}

TEST_CASE("the only sample of a label keeps its logit") {
  CHECK(LeaveOneOut(5.0f, 2.0f, 0, 0.0f) == 5.0f);
  CHECK(LeaveOneOut(5.0f, 2.0f, 1, 1.0f) == 5.0f);
  CHECK(LeaveOneOut(0.0f, 0.0f, 4, 3.0f) == 0.0f);
}

}  // namespace
}  // namespace dslide::centroids_test
