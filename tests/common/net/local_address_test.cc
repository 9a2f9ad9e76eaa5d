#include "common/net/local_address.h"

#include <doctest/doctest.h>

namespace dslide::local_address_test {
namespace {

TEST_CASE("loopback reaches loopback, by number and by name") {
  CHECK(*LocalHostTowards("tcp://127.0.0.1:7700") == "127.0.0.1");
  CHECK(*LocalHostTowards("tcp://localhost:7700") == "127.0.0.1");
}

TEST_CASE("a host without an address, or what is no address, is named") {
  const auto unknown = LocalHostTowards("tcp://host.invalid:7700");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().kind == ErrorKind::kTryLater);
  CHECK(unknown.error().message.starts_with("cannot look up the host host.invalid of "));
  CHECK(LocalHostTowards("host").error().kind == ErrorKind::kBadInput);
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
