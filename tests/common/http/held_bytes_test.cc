#include "common/http/held_bytes.h"

#include <doctest/doctest.h>

namespace dslide::held_bytes_test {
namespace {

using Ids = std::vector<HeldBytes::Id>;
using Kind = HeldBytes::Kind;

constexpr char kHere[] = "10.0.0.1";
constexpr char kThere[] = "10.0.0.2";

int ids[8];
const HeldBytes::Id kA = &ids[0], kB = &ids[1], kC = &ids[2], kD = &ids[3];

TEST_CASE("held bytes: the first bytes of each request are free") {
  HeldBytes held({.all = 100, .of_address = 0, .own = 10});
  for (int& id : ids) {
    CHECK(held.Set(&id, kHere, Kind::kIncoming, 10, 0).empty());
    CHECK(held.bytes() == 0);
  }
  CHECK(held.Set(kA, kHere, Kind::kIncoming, 110, 0).empty());
  CHECK(held.bytes() == 100);
  CHECK(held.Set(kA, kHere, Kind::kComplete, 60, 0).empty());
  CHECK(held.bytes() == 50);
  held.Erase(kA);
  held.Erase(kA);
  CHECK(held.bytes() == 0);
}

TEST_CASE("held bytes: most bytes for longest are given up, and complete bodies never") {
  HeldBytes held({.all = 100, .of_address = 0, .own = 0});
  CHECK(held.Set(kA, kHere, Kind::kIncoming, 40, 0).empty());
  CHECK(held.Set(kB, kHere, Kind::kIncoming, 50, 900).empty());
  // A body that grows keeps its beginning.
  CHECK(held.Set(kA, kHere, Kind::kIncoming, 45, 1000).empty());
  CHECK(held.Set(kC, kThere, Kind::kIncoming, 20, 1000) == Ids{kA});
  CHECK(held.bytes() == 70);
  CHECK(held.Set(kB, kHere, Kind::kComplete, 50, 5000).empty());
  CHECK(held.Set(kC, kThere, Kind::kComplete, 50, 5000).empty());
  CHECK(held.Set(kD, kThere, Kind::kIncoming, 1, 9000) == Ids{kD});
  CHECK(held.bytes() == 100);
}

TEST_CASE("held bytes: a response makes room for itself, and has waited only since it began") {
  HeldBytes held({.all = 100, .of_address = 0, .own = 0});
  CHECK(held.Set(kA, kHere, Kind::kResponse, 60, 0).empty());
  CHECK(held.Set(kB, kHere, Kind::kIncoming, 30, 0).empty());
  CHECK(held.Set(kB, kHere, Kind::kResponse, 30, 5000).empty());
  CHECK(held.Set(kC, kHere, Kind::kResponse, 50, 5001) == Ids{kA});
  CHECK(held.Set(kD, kHere, Kind::kResponse, 1000, 5002) == Ids{kC, kB});
  CHECK(held.bytes() == 1000);
}

TEST_CASE("held bytes: an address has its own bound, and gives up its own requests") {
  HeldBytes held({.all = 100, .of_address = 50, .own = 0});
  CHECK(held.Set(kA, kHere, Kind::kIncoming, 50, 0).empty());
  CHECK(held.Set(kB, kThere, Kind::kIncoming, 30, 10).empty());
  CHECK(held.Set(kC, kThere, Kind::kIncoming, 21, 1000) == Ids{kB});
  CHECK(held.Set(kC, kThere, Kind::kIncoming, 50, 1000).empty());
  held.Erase(kA);
  CHECK(held.Set(kD, kThere, Kind::kIncoming, 1, 2000) == Ids{kC});
}

}  // namespace
}  // namespace dslide::held_bytes_test
