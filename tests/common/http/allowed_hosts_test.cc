#include "common/http/allowed_hosts.h"

#include <doctest/doctest.h>

namespace dslide {
namespace {

TEST_CASE("allowed hosts: loopback and the names that are given, with a port or without") {
  const AllowedHosts loopback = AllowedHosts::LoopbackAnd();
  for (const char* host :
       {"localhost", "LocalHost:1", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:8080"}) {
    CAPTURE(host);
    CHECK(loopback.Allows(host));
  }
  for (const char* host : {"", ":", "a b", "other.example", "other.example:80", "10.0.0.1", "[::2]",
                           "localhost.other.example", "127.0.0.1.other.example:1", "[::1"}) {
    CAPTURE(host);
    CHECK_FALSE(loopback.Allows(host));
    CHECK(AllowedHosts().Allows(host));
  }
  const AllowedHosts named = AllowedHosts::LoopbackAnd({"Desk.example.org", "[2001:db8::1]"});
  for (const char* host :
       {"localhost", "desk.example.org", "DESK.example.org:8080", "[2001:DB8::1]:80"}) {
    CAPTURE(host);
    CHECK(named.Allows(host));
  }
  CHECK_FALSE(named.Allows("desk.example.org.other.example"));
  CHECK_FALSE(named.Allows("example.org"));
}

TEST_CASE("allowed hosts: what a host is") {
  for (const char* host : {"a", "a-b_c.example", "127.0.0.1", "[::1]"}) CHECK(IsHost(host));
  for (const char* host : {"", "a:80", "a/b", "http://a", "[]", "[x]", "[::1]:80", "bücher"}) {
    CAPTURE(host);
    CHECK_FALSE(IsHost(host));
  }
}

}  // namespace
}  // namespace dslide
