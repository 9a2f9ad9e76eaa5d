#include "common/run/batch_number.h"

#include <doctest/doctest.h>

namespace dslide {

TEST_CASE("batch number: numbers, places and names") {
  CHECK(NumberInPass(2, 3, 8) == 19);
  CHECK(PlaceInUnit(19, 8).unit == 2);
  CHECK(PlaceInUnit(19, 8).index == 3);
  CHECK(NumberInPass(0xffffffff, 7, 8) == 0x7ffffffffu);
  CHECK(NameOf({0, 3, 1}) == "batch 0.3.1");
}

}  // namespace dslide
