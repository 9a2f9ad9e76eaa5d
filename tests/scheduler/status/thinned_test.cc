#include "scheduler/status/thinned.h"

#include <doctest/doctest.h>

namespace dslide::thinned_test {
namespace {

// Numbers [first, last].
struct Stretch {
  int first = 0;
  int last = 0;
  void Merge(const Stretch& next) {
    CHECK(next.first == last + 1);
    last = next.last;
  }
};

TEST_CASE("thinned: points are bounded, in order, and stand for all additions") {
  Thinned<Stretch, 8> thinned;
  CHECK(thinned.Points().empty());
  for (int i = 0; i < 5000; ++i) {
    thinned.Add({i, i});
    const auto points = thinned.Points();
    REQUIRE(points.size() <= 8);
    REQUIRE((i < 3 || points.size() >= 4));
    REQUIRE(points.front().first == 0);
    REQUIRE(points.back().last == i);
    for (size_t p = 1; p < points.size(); ++p) {
      REQUIRE(points[p].first == points[p - 1].last + 1);
    }
  }
}

TEST_CASE("thinned: an odd number of points is halved, too") {
  for (const int count : {1, 2, 3, 7}) {
    Thinned<Stretch, 8> thinned;
    for (int i = 0; i < count; ++i) thinned.Add({i, i});
    thinned.Halve();
    const auto points = thinned.Points();
    REQUIRE(points.size() == static_cast<size_t>(count + 1) / 2);
    CHECK(points.front().first == 0);
    CHECK(points.back().last == count - 1);
  }
}

}  // namespace
}  // namespace dslide::thinned_test
