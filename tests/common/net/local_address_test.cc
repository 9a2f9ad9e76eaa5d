#include "common/net/local_address.h"

#include <doctest/doctest.h>

#include "tests/support/results.h"

namespace dslide::local_address_test {
namespace {

TEST_CASE("loopback reaches loopback, by number and by name") {
  CHECK(*LocalHostTowards("tcp://127.0.0.1:7700") == "127.0.0.1");
  CHECK(*LocalHostTowards("tcp://localhost:7700") == "127.0.0.1");
}

TEST_CASE("this machine has a loopback interface, and a host to be reached by") {
  bool loopback = false;
  for (const OwnAddress& own : OwnAddresses()) loopback |= own.host == "127.0.0.1";
  CHECK(loopback);
  CHECK(OwnHost() != "");
  CHECK(OwnHost() != "127.0.0.1");
}

}  // namespace
}  // namespace dslide::local_address_test
