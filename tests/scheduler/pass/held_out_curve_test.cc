#include "scheduler/pass/held_out_curve.h"

#include <doctest/doctest.h>

namespace dslide {

TEST_CASE("held-out curve: it has stopped rising where an epoch made nothing better") {
  HeldOutCurve curve;
  curve.Add(1, {0.1f, 0.3f});
  CHECK(curve.last() == doctest::Approx(0.2));
  CHECK_FALSE(curve.StoppedRising());  // there is nothing to compare with
  curve.Add(2, {0.125f, 0.375f});
  CHECK_FALSE(curve.StoppedRising());
  curve.Add(3, {0.25f, 0.25f});
  CHECK(curve.StoppedRising());
  CHECK(curve.before() == curve.last());
}

TEST_CASE("held-out curve: what training has gone back behind is forgotten") {
  HeldOutCurve curve;
  curve.Add(1, {0.2f});
  curve.Add(2, {0.5f});
  curve.Add(3, {0.6f});
  curve.Add(2, {0.4f});
  CHECK(curve.size() == 2);
  CHECK_FALSE(curve.StoppedRising());
  CHECK(curve.before() == doctest::Approx(0.2));
  curve.Add(1, {0.3f});
  CHECK(curve.size() == 1);
}

}  // namespace dslide
