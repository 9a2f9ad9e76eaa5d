#include "common/net/resolve.h"

#include <doctest/doctest.h>
#include <netinet/in.h>

#include "tests/support/results.h"

namespace dslide::resolve_test {
namespace {

TEST_CASE("resolve: which hosts have an address") {
  for (const char* address : {"tcp://127.0.0.1:7700", "tcp://localhost:1", "tcp://[::1]:7700",
                              "ipc:///run/x", "inproc://name"}) {
    CAPTURE(address);
    CHECK(CheckResolves(address).ok());
  }
  // RFC 6761: no resolver knows a name under "invalid".
  const Status unknown = CheckResolves("tcp://host.invalid:7700");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.starts_with(
      "cannot look up the host host.invalid of tcp://host.invalid:7700: "));
}

TEST_CASE("resolve: addresses have the port, and what is no address is named") {
  const auto four = Ok(Resolve("tcp://127.0.0.1:7700"));
  REQUIRE(four.size() == 1);
  REQUIRE(four.front().family() == AF_INET);
  CHECK(reinterpret_cast<const sockaddr_in*>(four.front().get())->sin_port == htons(7700));
  const auto six = Ok(Resolve("tcp://[::1]:7701"));
  REQUIRE(six.front().family() == AF_INET6);
  CHECK(reinterpret_cast<const sockaddr_in6*>(six.front().get())->sin6_port == htons(7701));
  CHECK(Resolve("tcp://localhost:1")->front().family() == AF_INET);
  CHECK(Resolve("host").error().kind == ErrorKind::kBadInput);
  CHECK_FALSE(Resolve("tcp://host.invalid:1").ok());
}

}  // namespace
}  // namespace dslide::resolve_test
