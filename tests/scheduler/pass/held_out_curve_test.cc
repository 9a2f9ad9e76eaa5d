#include "scheduler/pass/held_out_curve.h"

#include <doctest/doctest.h>

namespace dslide {

TEST_CASE("held-out curve: what the last epoch has gained") {
  HeldOutCurve curve;
  curve.Add(1, {0.0f, 0.0f});
  CHECK(curve.last() == 0);
  curve.Add(2, {0.0f, 0.0f});
  CHECK(curve.LastGain() == 0);
  curve.Add(3, {0.1f, 0.3f});
  CHECK(curve.LastGain() == 1);
  curve.Add(4, {0.25f, 0.25f});
  CHECK(curve.LastGain() == doctest::Approx(0.25));
  curve.Add(5, {0.2f, 0.2f});
  CHECK(curve.LastGain() == doctest::Approx(-0.2));
  CHECK(curve.before() == doctest::Approx(0.25));
}

TEST_CASE("held-out curve: what training has gone back behind is forgotten") {
  HeldOutCurve curve;
  curve.Add(1, {0.2f});
  curve.Add(2, {0.5f});
  curve.Add(3, {0.6f});
  curve.Add(2, {0.4f});
  CHECK(curve.size() == 2);
  CHECK(curve.before() == doctest::Approx(0.2));
  curve.Add(1, {0.3f});
  CHECK(curve.size() == 1);
}

}  // namespace dslide
