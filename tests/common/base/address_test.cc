#include "common/base/address.h"

#include <doctest/doctest.h>

namespace dslide::address_test {
namespace {

TEST_CASE("address: the parts of tcp://HOST:PORT") {
  const auto tcp = ParseTcp("tcp://[fe80::1]:7700");
  REQUIRE(tcp.has_value());
  CHECK(tcp->host == "[fe80::1]");
  CHECK(tcp->port == "7700");
  for (const char* other : {"", "tcp://", "tcp://host", "tcp://host:", "tcp://:1", "udp://host:1",
                            "TCP://host:1", "host:1", "tcp://a:1;b:2", "ipc://path"}) {
    CAPTURE(other);
    CHECK_FALSE(ParseTcp(other).has_value());
  }
}

TEST_CASE("address: where a process can listen") {
  for (const char* good : {"tcp://127.0.0.1:7700", "tcp://*:*", "tcp://eth0:0", "tcp://[::1]:65535",
                           "ipc:///run/dslide", "ipc://@name"}) {
    CAPTURE(good);
    CHECK(WhyNotListenable(good) == "");
  }
  CHECK(WhyNotListenable("tcp://*:70000") ==
        "port 70000 is not in 0 to 65535; use tcp://HOST:PORT");
  CHECK(WhyNotListenable("10.0.0.2:7701") == "not an address; did you mean tcp://10.0.0.2:7701?");
}

TEST_CASE("address: what others can dial") {
  for (const char* good : {"tcp://10.0.0.2:7701", "tcp://localhost:1", "tcp://[fe80::1%eth0]:65535",
                           "tcp://node-7.example.org:7701", "tcp://my_host:1", "ipc:///run/x"}) {
    CAPTURE(good);
    CHECK(WhyNotDialable(good) == "");
    CHECK(WhyNotAdvertisable(good) == "");
  }
  const auto refused = [](const std::string& address, const std::string& why) {
    CAPTURE(address);
    CHECK(WhyNotDialable(address) == why);
    CHECK(WhyNotAdvertisable(address) == why);
  };
  refused("10.0.0.2:7701", "not an address; did you mean tcp://10.0.0.2:7701?");
  refused("", "not an address; use tcp://HOST:PORT");
  refused("10.0.0.2", "not an address; use tcp://HOST:PORT");
  refused("tcp://10.0.0.2", "not an address; use tcp://HOST:PORT");
  refused("udp://10.0.0.2:1", "not an address; use tcp://HOST:PORT");
  refused("ipc://" + std::string(108, 'x'), "not an address; use tcp://HOST:PORT");
  refused("tcp://10.0.0.2:0", "port 0 is not in 1 to 65535; use tcp://HOST:PORT");
  refused("tcp://10.0.0.2:77 01", "port 77 01 is not in 1 to 65535; use tcp://HOST:PORT");
  for (const std::string host : {"*", "0.0.0.0", "[::]"}) {
    refused("tcp://" + host + ":7701", host +
                                           " is every address of its machine; use tcp://HOST:PORT "
                                           "with the one that others can reach");
  }
  for (const std::string host : {"fe80::1", "[fe80", "a/b", "-host", "a b", "[10.0.0.2]"}) {
    refused("tcp://" + host + ":7701", host +
                                           " is neither a host name nor an IP address; use "
                                           "tcp://HOST:PORT, with [] around IPv6");
  }
}

TEST_CASE("address: the port to advertise may be the one that is bound") {
  CHECK(WhyNotAdvertisable("tcp://10.0.0.2:*") == "");
  CHECK(WhyNotDialable("tcp://10.0.0.2:*") == "port * is not in 1 to 65535; use tcp://HOST:PORT");
}

TEST_CASE("address: which addresses stay on this machine") {
  for (const char* address : {"tcp://127.0.0.1:7700", "tcp://127.1.2.3:*", "tcp://localhost:1",
                              "tcp://[::1]:7700", "ipc:///run/x", "inproc://name"}) {
    CAPTURE(address);
    CHECK(IsLoopback(address));
  }
  for (const char* address :
       {"tcp://0.0.0.0:7700", "tcp://*:7700", "tcp://10.0.0.1:1", "tcp://[::]:7700", "tcp://eth0:1",
        "tcp://127.example.org:1", "tcp://127.0.0.1.example.org:1", "tcp://localhost.example:1",
        "tcp://", "tcp://127.0.0.1", "", "udp://127.0.0.1:1", "tcp://127.0.0.1:1;10.0.0.1:2"}) {
    CAPTURE(address);
    CHECK_FALSE(IsLoopback(address));
  }
}

}  // namespace
}  // namespace dslide::address_test
